// The colors of the kinds of runs in charts and figures on white paper.
#pragma once

#include <array>

namespace starling::lab {

// Tol's muted colors, distinct to the color-blind, with a darker fifth for white paper, and gray.
inline constexpr std::array<const char*, 10> kKindColors = {"#332288", "#cc6677", "#117733", "#88ccee",
                                                            "#b8a030", "#882255", "#44aa99", "#999933",
                                                            "#aa4499", "#555555"};

}  // namespace starling::lab
