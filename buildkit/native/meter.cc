#include "meter.h"

#include <algorithm>

namespace bk {

void Meter::Add(double seconds, uint64_t bytes) {
  const double average = (static_cast<double>(last_bytes_) + static_cast<double>(bytes)) / 2;
  byte_seconds_ += (seconds - last_seconds_) * average;
  last_seconds_ = seconds;
  last_bytes_ = bytes;
  peak_bytes_ = std::max(peak_bytes_, bytes);
  if (!points_.empty() && seconds - points_.back().first < gap_seconds_) {
    // Between two points the higher memory counts: a spike must not vanish.
    points_.back().second = std::max(points_.back().second, bytes);
    return;
  }
  if (points_.size() == kPoints) {
    for (size_t i = 0; i < kPoints / 2; ++i) {
      points_[i] = {points_[2 * i].first,
                    std::max(points_[2 * i].second, points_[2 * i + 1].second)};
    }
    points_.resize(kPoints / 2);
    gap_seconds_ = seconds / (kPoints / 2);
  }
  points_.emplace_back(seconds, bytes);
}

}  // namespace bk
