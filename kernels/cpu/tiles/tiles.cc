#include "kernels/cpu/tiles/tiles.h"

#include "base/check.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#define STARLING_TILES __attribute__((target("amx-tile,amx-bf16")))

namespace starling::kernels::cpu::tiles {
namespace {

bool processor_has_them() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kBf16 = 1U << 22, kTile = 1U << 24;
  return (d & kBf16) != 0 && (d & kTile) != 0;
}

// The state of tiles is large, so a process must request permission from Linux
// (Documentation/arch/x86/xstate.rst).
bool system_allows_them() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// GCC's intrinsics do not declare that they read memory, so all stores must be finished before.
inline void finish_stores() { asm volatile("" : : : "memory"); }

// Registers: sums 0 to 3 (2 i + j), A 4 and 5, B 6 and 7.
struct alignas(64) Configuration {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

template <int A, int B, bool Add>
STARLING_TILES void multiply_blocks(const Operands& it, std::span<const Term> terms, float* out,
                                    std::ptrdiff_t out_row) {
  const std::ptrdiff_t out_bytes = out_row * std::ptrdiff_t{sizeof(float)};
  const std::ptrdiff_t a_bytes = it.a_row * std::ptrdiff_t{sizeof(Bfloat16)};
  float* below = out + kSide * out_row;
  finish_stores();
  if constexpr (Add) {
    _tile_loadd(0, out, out_bytes);
    if constexpr (B == 2) _tile_loadd(1, out + kSide, out_bytes);
    if constexpr (A == 2) _tile_loadd(2, below, out_bytes);
    if constexpr (A == 2 && B == 2) _tile_loadd(3, below + kSide, out_bytes);
  } else {
    _tile_zero(0);
    if constexpr (B == 2) _tile_zero(1);
    if constexpr (A == 2) _tile_zero(2);
    if constexpr (A == 2 && B == 2) _tile_zero(3);
  }
  for (const Term& term : terms) {
    const Bfloat16* a = it.a + term.a;
    const Bfloat16* b = it.b + term.b;
    for (int step = 0; step < it.steps; ++step, a += it.a_step, b += it.b_step) {
      _tile_loadd(6, b, 64);
      _tile_loadd(4, a, a_bytes);
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (B == 2) {
        _tile_loadd(7, b + it.b_second, 64);
        _tile_dpbf16ps(1, 4, 7);
      }
      if constexpr (A == 2) {
        _tile_loadd(5, a + it.a_second, a_bytes);
        _tile_dpbf16ps(2, 5, 6);
      }
      if constexpr (A == 2 && B == 2) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, out, out_bytes);
  if constexpr (B == 2) _tile_stored(1, out + kSide, out_bytes);
  if constexpr (A == 2) _tile_stored(2, below, out_bytes);
  if constexpr (A == 2 && B == 2) _tile_stored(3, below + kSide, out_bytes);
}

template <bool Add>
void multiply_any(const Operands& it, std::span<const Term> terms, float* out, std::ptrdiff_t out_row) {
  if (it.a_count == 2) {
    if (it.b_count == 2) return multiply_blocks<2, 2, Add>(it, terms, out, out_row);
    return multiply_blocks<2, 1, Add>(it, terms, out, out_row);
  }
  if (it.b_count == 2) return multiply_blocks<1, 2, Add>(it, terms, out, out_row);
  multiply_blocks<1, 1, Add>(it, terms, out, out_row);
}

STARLING_TILES void configure(const Configuration& configuration) {
  finish_stores();
  _tile_loadconfig(&configuration);
}
STARLING_TILES void release() { _tile_release(); }

}  // namespace

bool available() {
  static const bool have = processor_has_them() && system_allows_them();
  return have;
}

TileSession::TileSession(int rows, int depth) {
  STARLING_CHECK(rows > 0 && rows <= kSide && depth > 0 && depth <= kDepth && depth % 2 == 0);
  Configuration configuration;
  const auto set = [&](int first, int last, int row_count, int bytes) {
    for (int i = first; i <= last; ++i) {
      configuration.rows[i] = static_cast<std::uint8_t>(row_count);
      configuration.row_bytes[i] = static_cast<std::uint16_t>(bytes);
    }
  };
  set(0, 3, rows, 64);
  set(4, 5, rows, depth * 2);
  set(6, 7, depth / 2, 64);
  configure(configuration);
}

TileSession::~TileSession() { release(); }

void TileSession::multiply(const Operands& operands, std::span<const Term> terms, bool add, float* out,
                           std::ptrdiff_t out_row) const {
  if (add) {
    multiply_any<true>(operands, terms, out, out_row);
  } else {
    multiply_any<false>(operands, terms, out, out_row);
  }
}

}  // namespace starling::kernels::cpu::tiles

#else

namespace starling::kernels::cpu::tiles {

bool available() { return false; }
TileSession::TileSession(int, int) { STARLING_CHECK(false); }
TileSession::~TileSession() = default;
void TileSession::multiply(const Operands&, std::span<const Term>, bool, float*, std::ptrdiff_t) const {}

}  // namespace starling::kernels::cpu::tiles

#endif
