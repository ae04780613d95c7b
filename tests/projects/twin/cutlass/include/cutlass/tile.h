#pragma once

namespace cutlass {

// 2 to the power of Depth + 1 types.
template <int Depth, int Place>
struct Tile {
  static constexpr int cost = Tile<Depth - 1, 2 * Place>::cost + Tile<Depth - 1, 2 * Place + 1>::cost;
};

template <int Place>
struct Tile<0, Place> {
  static constexpr int cost = Place % 97;
};

}  // namespace cutlass
