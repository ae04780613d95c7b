// The memory of a call over time: a peak, an integral, and some points of the curve.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace bk {

class Meter {
 public:
  // Enters what is held at a moment; moments come in order.
  void Add(double seconds, uint64_t bytes);

  uint64_t peak_bytes() const { return peak_bytes_; }
  double byte_seconds() const { return byte_seconds_; }

  // At most kPoints, evenly spread: whenever there are too many, every second one goes.
  const std::vector<std::pair<double, uint64_t>>& points() const { return points_; }

  static constexpr size_t kPoints = 64;

 private:
  uint64_t peak_bytes_ = 0;
  double byte_seconds_ = 0;
  double last_seconds_ = 0;
  uint64_t last_bytes_ = 0;
  double gap_seconds_ = 0;
  std::vector<std::pair<double, uint64_t>> points_;
};

}  // namespace bk
