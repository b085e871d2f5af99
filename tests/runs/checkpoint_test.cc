#include "training/runs/records/checkpoint.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/random.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/training/temporary_folder.h"

namespace starling::training {
namespace {

models::Layout small_layout() {
  models::Layout layout;
  layout.append("fc1.weight", {3, 5});
  layout.append("fc1.bias", {3});
  layout.append("scale", {});
  layout.append("fc2.weight", {2, 3, 1, 1});
  return layout;
}

std::vector<float> numbered(const models::Layout& layout) {
  std::vector<float> arena(layout.arena_size(), 0.0f);
  float next = 1;
  for (const auto& tensor : layout.tensors()) {
    for (std::size_t i = 0; i < tensor.size; ++i) arena[tensor.offset + i] = next++;
  }
  return arena;
}

// A file with the given header and number of data bytes.
std::string safetensors(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data_bytes, '\0');
}

}  // namespace

TEST_CASE("a checkpoint reads back bit for bit, with its metadata and zeros in the gaps") {
  const TemporaryFolder folder;
  const auto layout = small_layout();
  std::vector<float> arena = numbered(layout);
  arena[0] = std::numeric_limits<float>::denorm_min();
  arena[1] = -0.0f;
  const std::map<std::string, std::string> metadata = {{"model", "mlp"},
                                                       {"note", "with \"quotes\"\nand lines"}};
  REQUIRE(write_safetensors(folder.file("a.safetensors"), layout, arena, metadata).ok());
  const auto read = read_safetensors(folder.file("a.safetensors"), layout);
  REQUIRE(read.ok());
  REQUIRE(read->arena.size() == arena.size());
  REQUIRE(std::memcmp(read->arena.data(), arena.data(), arena.size() * sizeof(float)) == 0);
  REQUIRE(read->metadata == metadata);
  REQUIRE(*read_metadata(folder.file("a.safetensors")) == metadata);
}

TEST_CASE("a checkpoint has the layout of safetensors, with its data on a 64-byte boundary") {
  const TemporaryFolder folder;
  const auto layout = small_layout();
  REQUIRE(write_safetensors(folder.file("a"), layout, numbered(layout), {{"k", "v"}}).ok());
  const std::string bytes = contents(folder.file("a"));
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  REQUIRE((8 + length) % 64 == 0);
  REQUIRE(bytes.size() == 8 + length + layout.parameter_count() * 4);
  REQUIRE(bytes[8] == '{');
  const auto header = nlohmann::ordered_json::parse(bytes.substr(8, length));
  REQUIRE(header.dump() ==
          R"({"__metadata__":{"k":"v"},"fc1.weight":{"dtype":"F32","shape":[3,5],"data_offsets":[0,60]},)"
          R"("fc1.bias":{"dtype":"F32","shape":[3],"data_offsets":[60,72]},)"
          R"("scale":{"dtype":"F32","shape":[],"data_offsets":[72,76]},)"
          R"("fc2.weight":{"dtype":"F32","shape":[2,3,1,1],"data_offsets":[76,100]}})");
  float value = 0;
  std::memcpy(&value, bytes.data() + 8 + length + 60, 4);
  REQUIRE(value == 16);  // the first value of fc1.bias
}

TEST_CASE("a checkpoint of another model is rejected with the tensor's name") {
  const TemporaryFolder folder;
  const auto layout = small_layout();
  REQUIRE(write_safetensors(folder.file("a"), layout, numbered(layout), {}).ok());
  const auto refusal = [&](const models::Layout& other) {
    return read_safetensors(folder.file("a"), other).error().message;
  };

  models::Layout reshaped, renamed, fewer;
  reshaped.append("fc1.weight", {5, 3});
  renamed.append("conv1.weight", {3, 5});
  fewer.append("fc1.weight", {3, 5});
  REQUIRE(contains(refusal(reshaped), "tensor 'fc1.weight' has shape [3, 5], expected [5, 3]"));
  REQUIRE(contains(refusal(renamed), "it has no tensor 'conv1.weight'"));
  REQUIRE(contains(refusal(fewer), "tensor 'fc1.bias' does not belong"));
  REQUIRE(contains(refusal(fewer), folder.file("a")));
}

TEST_CASE("weights of 16 and 64 bits are read as the floats that they are") {
  const TemporaryFolder folder;
  models::Layout layout;
  layout.append("w", {4});
  const auto read = [&](const std::string& dtype, const std::string& bytes) {
    const std::string header = R"({"__metadata__":null,"w":{"dtype":")" + dtype +
                               R"(","shape":[4],"data_offsets":[0,)" + std::to_string(bytes.size()) + "]}}";
    std::string file = safetensors(header, 0);
    const auto checkpoint = read_safetensors(folder.write("a", file + bytes), layout);
    INFO((checkpoint.ok() ? "" : checkpoint.error().message));
    REQUIRE(checkpoint.ok());
    return std::vector<float>(checkpoint->arena.begin(), checkpoint->arena.begin() + 4);
  };
  // numpy.array([1.5, -0.1, 65504, 2**-24], "<f2").tobytes()
  CHECK(read("F16", std::string("\x00\x3e\x66\xae\xff\x7b\x01\x00", 8)) ==
        std::vector<float>{1.5F, -0.0999755859375F, 65504, 0x1p-24F});
  // torch.tensor([1.5, -0.1, 3e38, 1e-40], dtype=torch.bfloat16)
  CHECK(read("BF16", std::string("\xc0\x3f\xcd\xbd\x62\x7f\x01\x00", 8)) ==
        std::vector<float>{1.5F, -0.10009765625F, 0x1.c4p127F, 0x1p-133F});
  const double doubles[] = {1.5, -0.1, 16777217, 1e-300};
  CHECK(read("F64", std::string(reinterpret_cast<const char*>(doubles), sizeof doubles)) ==
        std::vector<float>{1.5F, -0.1F, 16777216, 0});
}

TEST_CASE("values that are not finite are counted in their tensor") {
  const auto layout = small_layout();
  std::vector<float> arena = numbered(layout);
  CHECK(check_finite("m", layout, arena).ok());
  const models::Tensor& tensor = layout.tensors().back();
  arena[tensor.offset] = NAN;
  arena[tensor.offset + 1] = -INFINITY;
  CHECK(contains(check_finite("m", layout, arena).error().message,
                 "m: 2 of the " + std::to_string(tensor.size) + " values of tensor '" + tensor.name +
                     "' are not finite"));
}

TEST_CASE("a file with values that are not finite is exported under no names") {
  const TemporaryFolder folder;
  const float infinite = -INFINITY, values[] = {1, NAN, infinite};
  const std::string header = R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})";
  const std::string from =
      folder.write("a", safetensors(header, 0) + std::string(reinterpret_cast<const char*>(values), 12));
  for (const TensorNames names : {TensorNames::starling, TensorNames::gpt2}) {
    const Status exported = export_parameters(from, folder.file("b"), names);
    REQUIRE_FALSE(exported.ok());
    CHECK(contains(exported.error().message, from + ": 2 of the 3 values of tensor 'w' are not finite"));
    CHECK_FALSE(std::filesystem::exists(folder.file("b")));
  }
}

TEST_CASE("PyTorch's counters of batches and masks of attention are no parameters") {
  const TemporaryFolder folder;
  models::Layout layout;
  layout.append("bn1.weight", {2});
  const auto read = [&](const std::string& other) {
    const std::string header =
        R"({"bn1.weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)" + other + "}";
    return read_safetensors(folder.write("a", safetensors(header, 16)), layout).ok();
  };
  const std::string place = R"("data_offsets":[8,16]})";
  CHECK(read(R"("bn1.num_batches_tracked":{"dtype":"I64","shape":[],)" + place));
  CHECK(read(R"("block1.attn.masked_bias":{"dtype":"F64","shape":[],)" + place));
  CHECK(read(R"("block1.attn.bias":{"dtype":"I64","shape":[1,1,1,1],)" + place));
  CHECK_FALSE(read(R"("block1.attn.bias":{"dtype":"F32","shape":[2],)" + place));
}

TEST_CASE("a tensor of any type of safetensors is measured, and named if it does not belong to the model") {
  const TemporaryFolder folder;
  models::Layout layout;
  layout.append("w", {2});
  const auto refusal = [&](const std::string& dtype, int values, int bytes) {
    const std::string end = std::to_string(8 + bytes);
    const std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"x":{"dtype":")" +
                               dtype + R"(","shape":[)" + std::to_string(values) + R"(],"data_offsets":[8,)" +
                               end + "]}}";
    return read_safetensors(folder.write("a", safetensors(header, 8 + bytes)), layout).error().message;
  };
  for (const auto& [dtype, values, bytes] : std::vector<std::tuple<const char*, int, int>>{
           {"F4", 6, 3},          {"F6_E2M3", 4, 3},     {"F6_E3M2", 8, 6}, {"BOOL", 3, 3}, {"U8", 3, 3},
           {"I8", 3, 3},          {"F8_E5M2", 3, 3},     {"F8_E4M3", 3, 3}, {"I16", 3, 6},  {"F8_E8M0", 3, 3},
           {"F8_E4M3FNUZ", 3, 3}, {"F8_E5M2FNUZ", 3, 3}, {"U16", 3, 6},     {"F16", 3, 6},  {"BF16", 3, 6},
           {"I32", 3, 12},        {"U32", 3, 12},        {"F32", 3, 12},    {"C64", 3, 24}, {"F64", 3, 24},
           {"I64", 3, 24},        {"U64", 3, 24}}) {
    INFO(dtype);
    CHECK(contains(refusal(dtype, values, bytes), "tensor 'x' does not belong"));
    CHECK(contains(refusal(dtype, values, bytes + 1), "do not fit its shape"));
  }
  CHECK(contains(refusal("F4", 3, 2), "do not fit its shape"));  // a byte and a half
}

TEST_CASE("a file with an invalid header is rejected with the reason") {
  const TemporaryFolder folder;
  models::Layout layout;
  layout.append("w", {2});
  const auto refusal = [&](const std::string& bytes) {
    const auto read = read_safetensors(folder.write("a", bytes), layout);
    REQUIRE(!read.ok());
    REQUIRE(contains(read.error().message, folder.file("a")));
    return read.error().message;
  };
  const auto tensor = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  REQUIRE(read_safetensors(folder.write("a", safetensors(tensor("F32", "[2]", "[0,8]"), 8)), layout).ok());

  REQUIRE(contains(refusal(""), "too short"));
  REQUIRE(contains(refusal("1234567"), "too short"));
  REQUIRE(contains(refusal(std::string(8, '\xff')), "longer than the file"));
  REQUIRE(contains(refusal(safetensors("{", 8)), "its header is not JSON"));
  REQUIRE(contains(refusal(safetensors("[]", 8)), "not a JSON object"));
  REQUIRE(contains(refusal(safetensors(std::string(15'000'000, '['), 8)), "nested too deeply"));
  REQUIRE(contains(refusal(safetensors(R"({"__metadata__":{"a":"[[[[[[[[[\\\"[{"}})", 8)), "cover 0 bytes"));
  REQUIRE(contains(refusal(safetensors(tensor("F32", "[2]", "[0,8]"), 7)), "larger than the file"));
  REQUIRE(contains(refusal(safetensors(tensor("F32", "[2]", "[0,8]"), 9)), "cover 8 bytes, but it holds 9"));
  REQUIRE(contains(refusal(safetensors(tensor("F32", "[2]", "[4,12]"), 12)), "leaves a gap"));
  REQUIRE(contains(refusal(safetensors(tensor("F32", "[2]", "[4,12]"), 8)), "outside"));
  REQUIRE(contains(refusal(safetensors(tensor("F32", "[2]", "[8,0]"), 8)), "outside"));
  REQUIRE(contains(refusal(safetensors(tensor("F32", "[2]", "[0,4]"), 8)), "do not fit its shape [2]"));
  REQUIRE(contains(refusal(safetensors(tensor("F32", "[2]", "[0.0,8]"), 8)), "no two data_offsets"));
  REQUIRE(contains(refusal(safetensors(tensor("F32", "[2]", "[-8,0]"), 8)), "no two data_offsets"));
  REQUIRE(contains(refusal(safetensors(tensor("F32", "[-2]", "[0,8]"), 8)), "whole numbers"));
  REQUIRE(contains(refusal(safetensors(tensor("F32", "[4611686018427387904,4]", "[0,8]"), 8)),
                   "larger than the file"));
  REQUIRE(contains(refusal(safetensors(tensor("I32", "[2]", "[0,8]"), 8)),
                   "dtype I32, expected F32, F16, BF16 or F64"));
  REQUIRE(contains(refusal(safetensors(tensor("X9", "[2]", "[0,8]"), 8)), "unknown dtype"));
  REQUIRE(contains(refusal(safetensors(R"({"w":3})", 0)), "no dtype"));
  REQUIRE(contains(refusal(safetensors(R"({"__metadata__":{"a":1}})", 0)), "strings to strings"));
  const std::string w = R"("w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  REQUIRE(contains(refusal(safetensors("{" + w + "," + w + "}", 8)), "has the key 'w' twice"));
  std::string tensors, keys;
  for (int i = 0; i < 5000; ++i) {
    tensors += ",\"t" + std::to_string(i) + R"(":{"dtype":"F32","shape":[0],"data_offsets":[8,8]})";
    keys += std::string(i > 0 ? "," : "") + "\"k" + std::to_string(i) + "\":\"\"";
  }
  const char* const many = "its header has more than 4097 keys in one object";
  REQUIRE(contains(refusal(safetensors("{" + w + tensors + "}", 8)), many));
  REQUIRE(contains(refusal(safetensors("{\"__metadata__\":{" + keys + "}," + w + "}", 8)), many));
  const std::string v = R"("v":{"dtype":"F32","shape":[2],"data_offsets":[4,12]})";
  REQUIRE(contains(refusal(safetensors("{" + w + "," + v + "}", 12)), "overlaps"));

  REQUIRE(contains(read_safetensors(folder.file("absent"), layout).error().message, "No such file"));
  REQUIRE(contains(read_safetensors(folder.path(), layout).error().message, "it is a folder"));
  REQUIRE(contains(read_metadata(folder.file("absent")).error().message, "No such file"));
}

TEST_CASE("no truncation and no changed byte of a checkpoint crashes its reader") {
  const TemporaryFolder folder;
  const auto layout = small_layout();
  REQUIRE(write_safetensors(folder.file("a"), layout, numbered(layout), {{"k", "v"}}).ok());
  const std::string good = contents(folder.file("a"));
  for (std::size_t length = 0; length < good.size(); ++length) {
    INFO("cut to " << length);
    REQUIRE(!read_safetensors(folder.write("b", good.substr(0, length)), layout).ok());
  }
  const std::size_t header_end = good.size() - layout.parameter_count() * 4;
  Random random(2);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    for (std::uint64_t flips = 1 + random.below(3); flips > 0; --flips) {
      bad[random.below(header_end)] ^= static_cast<char>(1 + random.below(255));
    }
    const auto read = read_safetensors(folder.write("b", bad), layout);
    if (read.ok()) REQUIRE(read->arena.size() == layout.arena_size());
    refused += !read.ok();
  }
  REQUIRE(refused > 1000);
}

TEST_CASE("the error for a checkpoint that cannot be written has the path and the reason") {
  const TemporaryFolder folder;
  const auto layout = small_layout();
  const Status status = write_safetensors(folder.file("absent/a"), layout, numbered(layout), {});
  REQUIRE(contains(status.error().message, "cannot write " + folder.file("absent/a")));
}

}  // namespace starling::training
