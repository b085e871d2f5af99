#include "transport/gcm_avx512.h"

#include <cstdint>
#include <cstring>

#include "base/check.h"

#ifdef __x86_64__
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12 suspects its own header
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#define STARLING_GCM \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,vaes,vpclmulqdq,aes,pclmul,ssse3")))
#define STARLING_GCM_INLINE STARLING_GCM __attribute__((always_inline)) inline

namespace starling::transport {
namespace gcm {
namespace {

constexpr std::size_t kBlock = 16, kGroup = 256;  // bytes; a group is the 16 blocks of four registers
constexpr int kRounds = 10;

// GHASH's field elements are handled with their bytes reversed, as integers of 128 bits: bit i is the
// coefficient of x^(127-i). A factor that is multiplied by x beforehand makes the product of the integers
// need no shift.

STARLING_GCM_INLINE __m128i reversed(__m128i block) {
  return _mm_shuffle_epi8(block, _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}
STARLING_GCM_INLINE __m512i reversed(__m512i blocks) {
  const __m128i order = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_shuffle_epi8(blocks, _mm512_broadcast_i32x4(order));
}

STARLING_GCM_INLINE __m128i load(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}
STARLING_GCM_INLINE void store(void* to, __m128i block) {
  _mm_storeu_si128(static_cast<__m128i*>(to), block);
}

// The element times x, reduced.
STARLING_GCM_INLINE __m128i times_x(__m128i element) {
  // The bits that leave the two halves: the upper one's selects the polynomial, the lower one's moves up.
  const __m128i out = _mm_srai_epi32(_mm_shuffle_epi32(element, 0xd3), 31);
  const __m128i carried = _mm_and_si128(out, _mm_set_epi64x(static_cast<long long>(0xc200000000000001), 1));
  return _mm_xor_si128(_mm_add_epi64(element, element), carried);
}

// The products of pairs of blocks before they are reduced, summed.
struct Products {
  __m512i low, middle, high;
};

STARLING_GCM_INLINE void add_products(Products& sum, __m512i blocks, __m512i powers) {
  sum.low = _mm512_xor_si512(sum.low, _mm512_clmulepi64_epi128(blocks, powers, 0x00));
  sum.high = _mm512_xor_si512(sum.high, _mm512_clmulepi64_epi128(blocks, powers, 0x11));
  sum.middle =
      _mm512_ternarylogic_epi64(sum.middle, _mm512_clmulepi64_epi128(blocks, powers, 0x01),
                                _mm512_clmulepi64_epi128(blocks, powers, 0x10), 0x96);  // exclusive or
}

STARLING_GCM_INLINE __m128i reduced(const Products& sum) {
  const __m512i polynomial = _mm512_set1_epi64(static_cast<long long>(0xc200000000000000));
  __m512i folded = _mm512_clmulepi64_epi128(sum.low, polynomial, 0x00);
  const __m512i middle =
      _mm512_ternarylogic_epi64(sum.middle, folded, _mm512_shuffle_epi32(sum.low, _MM_PERM_BADC), 0x96);
  folded = _mm512_clmulepi64_epi128(middle, polynomial, 0x00);
  const __m512i all =
      _mm512_ternarylogic_epi64(sum.high, folded, _mm512_shuffle_epi32(middle, _MM_PERM_BADC), 0x96);
  const __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
  return _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

// One element times one that was multiplied by x.
STARLING_GCM_INLINE __m128i product(__m128i a, __m128i b) {
  const __m128i polynomial = _mm_set1_epi64x(static_cast<long long>(0xc200000000000000));
  const __m128i low = _mm_clmulepi64_si128(a, b, 0x00), high = _mm_clmulepi64_si128(a, b, 0x11);
  __m128i middle = _mm_xor_si128(_mm_clmulepi64_si128(a, b, 0x01), _mm_clmulepi64_si128(a, b, 0x10));
  middle = _mm_xor_si128(
      middle, _mm_xor_si128(_mm_clmulepi64_si128(low, polynomial, 0x00), _mm_shuffle_epi32(low, 0x4e)));
  return _mm_xor_si128(
      high, _mm_xor_si128(_mm_clmulepi64_si128(middle, polynomial, 0x00), _mm_shuffle_epi32(middle, 0x4e)));
}

template <int constant>
STARLING_GCM_INLINE __m128i next_round_key(__m128i key) {
  const __m128i word = _mm_shuffle_epi32(_mm_aeskeygenassist_si128(key, constant), 0xff);
  key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
  key = _mm_xor_si128(key, _mm_slli_si128(key, 8));
  return _mm_xor_si128(key, word);
}

STARLING_GCM_INLINE __m128i encrypted(const std::byte* round_keys, __m128i block) {
  block = _mm_xor_si128(block, load(round_keys));
  for (int round = 1; round < kRounds; ++round)
    block = _mm_aesenc_si128(block, load(round_keys + kBlock * round));
  return _mm_aesenclast_si128(block, load(round_keys + kBlock * kRounds));
}

// What one message uses.
struct Message {
  const std::byte* round_keys;
  const std::byte* powers;
  __m128i first_counter;  // reversed; its lowest 32 bits count
  std::uint32_t blocks;   // whose key stream was used
  __m128i hash;           // reversed

  STARLING_GCM_INLINE __m128i power_one() const { return load(powers + 15 * kBlock); }
  STARLING_GCM_INLINE void take(__m128i block) {
    hash = product(_mm_xor_si128(hash, reversed(block)), power_one());
  }
};

STARLING_GCM_INLINE Message begin(const std::byte* round_keys, const std::byte* powers,
                                  const Avx512Gcm::Nonce& nonce, Bytes header) {
  alignas(16) std::byte block[kBlock] = {};
  std::memcpy(block, nonce.data(), nonce.size());
  block[15] = std::byte{1};
  Message message{round_keys, powers, reversed(load(block)), 0, _mm_setzero_si128()};
  std::memset(block, 0, sizeof block);
  std::memcpy(block, header.data(), header.size());
  message.take(load(block));
  return message;
}

// Encrypts or decrypts whole groups; hashes the ciphertext.
template <bool seals>
STARLING_GCM void crypt_groups(Message& message, const std::byte* in, std::byte* out, std::size_t groups) {
  __m512i keys[kRounds + 1], powers[4];
#pragma GCC unroll 16
  for (int i = 0; i <= kRounds; ++i) keys[i] = _mm512_broadcast_i32x4(load(message.round_keys + kBlock * i));
#pragma GCC unroll 16
  for (int i = 0; i < 4; ++i) powers[i] = _mm512_load_si512(message.powers + 4 * kBlock * i);
  const __m512i four = _mm512_broadcast_i32x4(_mm_set_epi32(0, 0, 0, 4));
  // The counters of the next four blocks.
  __m512i counter =
      _mm512_add_epi32(_mm512_broadcast_i32x4(_mm_add_epi32(
                           message.first_counter, _mm_set_epi32(0, 0, 0, static_cast<int>(message.blocks)))),
                       _mm512_set_epi32(0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1));
  __m128i hash = message.hash;
  for (std::size_t group = 0; group < groups; ++group, in += kGroup, out += kGroup) {
    __m512i stream[4];
#pragma GCC unroll 16
    for (__m512i& blocks : stream) {
      blocks = _mm512_xor_si512(reversed(counter), keys[0]);
      counter = _mm512_add_epi32(counter, four);
    }
#pragma GCC unroll 16
    for (int round = 1; round < kRounds; ++round) {
#pragma GCC unroll 16
      for (__m512i& blocks : stream) blocks = _mm512_aesenc_epi128(blocks, keys[round]);
    }
    Products sum{};
#pragma GCC unroll 16
    for (int i = 0; i < 4; ++i) {
      const __m512i text = _mm512_loadu_si512(in + 4 * kBlock * i);
      const __m512i other = _mm512_xor_si512(text, _mm512_aesenclast_epi128(stream[i], keys[kRounds]));
      _mm512_storeu_si512(out + 4 * kBlock * i, other);
      __m512i hashed = reversed(seals ? other : text);
      if (i == 0) hashed = _mm512_xor_si512(hashed, _mm512_zextsi128_si512(hash));
      add_products(sum, hashed, powers[i]);
    }
    hash = reduced(sum);
  }
  message.hash = hash;
  message.blocks += static_cast<std::uint32_t>(16 * groups);
}

// Encrypts or decrypts up to 16 bytes; hashes the ciphertext.
template <bool seals>
STARLING_GCM void crypt_block(Message& message, const std::byte* in, std::byte* out, std::size_t bytes) {
  alignas(16) std::byte text[kBlock] = {}, other[kBlock];
  std::memcpy(text, in, bytes);
  ++message.blocks;
  const __m128i counter =
      _mm_add_epi32(message.first_counter, _mm_set_epi32(0, 0, 0, static_cast<int>(message.blocks)));
  store(other, _mm_xor_si128(load(text), encrypted(message.round_keys, reversed(counter))));
  std::memcpy(out, other, bytes);
  std::memset(other + bytes, 0, kBlock - bytes);
  message.take(load(seals ? other : text));
}

// The text, of which the last byte is apart.
template <bool seals>
STARLING_GCM void crypt(Message& message, const std::byte* in, std::byte* out, std::size_t bytes,
                        std::byte last_in, std::byte& last_out) {
  const std::size_t groups = bytes / kGroup;
  crypt_groups<seals>(message, in, out, groups);
  std::size_t at = groups * kGroup;
  for (; bytes - at >= kBlock; at += kBlock) crypt_block<seals>(message, in + at, out + at, kBlock);
  std::byte rest[kBlock] = {};
  std::memcpy(rest, in + at, bytes - at);
  rest[bytes - at] = last_in;
  crypt_block<seals>(message, rest, rest, bytes - at + 1);
  std::memcpy(out + at, rest, bytes - at);
  last_out = rest[bytes - at];
}

STARLING_GCM __m128i tag(Message& message, std::size_t header_bytes, std::size_t text_bytes) {
  const __m128i lengths =
      _mm_set_epi64x(static_cast<long long>(8 * header_bytes), static_cast<long long>(8 * text_bytes));
  message.hash = product(_mm_xor_si128(message.hash, lengths), message.power_one());
  return _mm_xor_si128(reversed(message.hash),
                       encrypted(message.round_keys, reversed(message.first_counter)));
}

STARLING_GCM void expand(const std::byte* key, std::byte* round_keys, std::byte* powers) {
  __m128i round_key = load(key);
  int i = 0;
  const auto keep = [&](__m128i next) {
    round_key = next;
    std::memcpy(round_keys + kBlock * i++, &next, kBlock);
  };
  keep(round_key);
  keep(next_round_key<0x01>(round_key));
  keep(next_round_key<0x02>(round_key));
  keep(next_round_key<0x04>(round_key));
  keep(next_round_key<0x08>(round_key));
  keep(next_round_key<0x10>(round_key));
  keep(next_round_key<0x20>(round_key));
  keep(next_round_key<0x40>(round_key));
  keep(next_round_key<0x80>(round_key));
  keep(next_round_key<0x1b>(round_key));
  keep(next_round_key<0x36>(round_key));
  const __m128i one = times_x(reversed(encrypted(round_keys, _mm_setzero_si128())));
  __m128i power = one;
  for (int p = 15; p >= 0; --p) {
    store(powers + kBlock * p, power);
    power = product(power, one);
  }
}

STARLING_GCM void seal_message(const std::byte* round_keys, const std::byte* powers,
                               const Avx512Gcm::Nonce& nonce, Bytes header, Bytes plain, std::byte last,
                               std::byte* sealed) {
  Message message = begin(round_keys, powers, nonce, header);
  crypt<true>(message, plain.data(), sealed, plain.size(), last, sealed[plain.size()]);
  store(sealed + plain.size() + 1, tag(message, header.size(), plain.size() + 1));
}

STARLING_GCM bool open_message(const std::byte* round_keys, const std::byte* powers,
                               const Avx512Gcm::Nonce& nonce, Bytes header, Bytes sealed, MutableBytes plain,
                               std::byte& last) {
  Message message = begin(round_keys, powers, nonce, header);
  crypt<false>(message, sealed.data(), plain.data(), plain.size(), sealed[plain.size()], last);
  const __m128i difference =
      _mm_xor_si128(tag(message, header.size(), plain.size() + 1), load(sealed.data() + plain.size() + 1));
  return _mm_test_epi64_mask(difference, difference) == 0;
}

}  // namespace
}  // namespace gcm

bool Avx512Gcm::is_available() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("vaes") && __builtin_cpu_supports("vpclmulqdq") &&
         __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
}

Avx512Gcm::Avx512Gcm(std::span<const std::byte, kKeyBytes> key) {
  STARLING_CHECK(is_available());
  gcm::expand(key.data(), round_keys_.data(), powers_.data());
}

void Avx512Gcm::seal(const Nonce& nonce, Bytes header, Bytes plain, std::byte last, std::byte* sealed) const {
  STARLING_CHECK(header.size() <= kBlockBytes);
  gcm::seal_message(round_keys_.data(), powers_.data(), nonce, header, plain, last, sealed);
}

bool Avx512Gcm::open(const Nonce& nonce, Bytes header, Bytes sealed, MutableBytes plain,
                     std::byte& last) const {
  STARLING_CHECK(header.size() <= kBlockBytes && sealed.size() == plain.size() + 1 + kTagBytes);
  return gcm::open_message(round_keys_.data(), powers_.data(), nonce, header, sealed, plain, last);
}

}  // namespace starling::transport

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#else

namespace starling::transport {

bool Avx512Gcm::is_available() { return false; }
Avx512Gcm::Avx512Gcm(std::span<const std::byte, kKeyBytes>) { STARLING_CHECK(is_available()); }
void Avx512Gcm::seal(const Nonce&, Bytes, Bytes, std::byte, std::byte*) const {}
bool Avx512Gcm::open(const Nonce&, Bytes, Bytes, MutableBytes, std::byte&) const { return false; }

}  // namespace starling::transport

#endif

namespace starling::transport {

Avx512Gcm::~Avx512Gcm() {
  // Not memset, which the compiler could drop.
  const auto wipe = [](auto& bytes) {
    for (volatile std::byte& byte : bytes) byte = std::byte{0};
  };
  wipe(round_keys_);
  wipe(powers_);
}

}  // namespace starling::transport
