#include "meter.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace bk {
namespace {

TEST(Meter, StartsWithNothing) {
  const Meter meter;
  EXPECT_EQ(meter.peak_bytes(), 0u);
  EXPECT_EQ(meter.byte_seconds(), 0);
  EXPECT_TRUE(meter.points().empty());
}

TEST(Meter, RemembersThePeakAndTheAreaBelowTheCurve) {
  Meter meter;
  meter.Add(1, 100);  // a ramp from nothing: 50
  meter.Add(3, 100);  // 200
  meter.Add(4, 0);    // 50
  EXPECT_EQ(meter.peak_bytes(), 100u);
  EXPECT_DOUBLE_EQ(meter.byte_seconds(), 300);
}

TEST(Meter, KeepsEachPointOfAShortCall) {
  Meter meter;
  for (int i = 0; i < static_cast<int>(Meter::kPoints); ++i) meter.Add(i, 7);
  EXPECT_EQ(meter.points().size(), Meter::kPoints);
}

TEST(Meter, SpreadsTheFewPointsOfALongCallEvenly) {
  Meter meter;
  const int samples = 100'000;
  for (int i = 0; i < samples; ++i) meter.Add(i * 0.05, 1000);
  const auto& points = meter.points();
  EXPECT_LE(points.size(), Meter::kPoints);
  EXPECT_GE(points.size(), Meter::kPoints / 4);
  double widest = samples * 0.05 - points.back().first;
  for (size_t i = 1; i < points.size(); ++i) {
    EXPECT_LT(points[i - 1].first, points[i].first);
    widest = std::max(widest, points[i].first - points[i - 1].first);
  }
  EXPECT_LE(widest, samples * 0.05 / 16);
}

TEST(Meter, ASpikeDoesNotVanish) {
  for (const int place : {0, 1, 63, 64, 65, 4321, 9999}) {
    Meter meter;
    for (int i = 0; i < 10'000; ++i) meter.Add(i * 0.05, i == place ? 900 : 10);
    EXPECT_EQ(std::count_if(meter.points().begin(), meter.points().end(),
                            [](const auto& point) { return point.second == 900; }),
              1)
        << place;
  }
}

TEST(Meter, BearsTwoSamplesAtOneMoment) {
  Meter meter;
  for (int i = 0; i < 1000; ++i) meter.Add(0, 5);
  EXPECT_LE(meter.points().size(), Meter::kPoints);
  EXPECT_EQ(meter.byte_seconds(), 0);
}

}  // namespace
}  // namespace bk
