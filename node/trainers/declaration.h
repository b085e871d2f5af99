// What a trainer outside the process says about its model when it begins: the lines of docs/TRAINERS.md, from
// "starling-trainer 1.1" to "end", as a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "models/layout.h"

namespace starling::node {

inline constexpr std::uint16_t kContractMajor = 1, kContractMinor = 2;
inline constexpr std::size_t kTrainerLineBytesMax = 4096;
inline constexpr std::uint64_t kEpochSamplesMax = std::uint64_t{1} << 40;

struct DeclaredTensor {
  enum class Role : std::uint8_t { trained, running, frozen, state };
  std::string name;
  std::string type = "f32";  // the trainer's own; the arena has float32
  Role role = Role::trained;
  std::vector<std::int64_t> shape{};
};

// What a trainer has made in its run with a peer that was lost.
struct Made {
  std::uint64_t steps = 0, samples = 0;
  std::uint64_t swarm_samples = 0;  // of all members
  std::uint64_t seconds = 0;        // since the run began
};

struct Declaration {
  bool view = false;
  std::string model = "trainer", data = "own", device = "trainer";
  std::uint64_t epoch = 0;  // samples; 0: unknown
  std::uint32_t batch = 1;  // samples
  Made made{};
  std::vector<DeclaredTensor> tensors{};  // of the arena
  std::vector<DeclaredTensor> states{};   // role `state`: of the areas for the trainer's state
  std::vector<std::pair<std::string, std::string>> tied{};  // another name, and a tensor's name

  // Trained tensors first, else in the order of the declaration.
  models::Layout layout() const;
  // A line for each tensor of the layout, "OFFSET FLOATS TYPE ROLE SHAPE NAME", and for each of `states`,
  // "OFFSET WORDS TYPE state SHAPE NAME".
  std::string table() const;
  // Words of 4 bytes that the values of `states` need, each in its own type and from a multiple of 16 words
  // on.
  std::size_t state_words() const;
  // Of their names, types and shapes; 0: there are none.
  std::uint64_t state_fingerprint() const;
};

// Reads the declaration line by line.
class DeclarationReader {
 public:
  // A line without its end. True: the declaration is complete. An Error is final; it names the line.
  Result<bool> take(std::string_view line);
  const Declaration& declaration() const { return declaration_; }  // once it is complete

 private:
  Status take_first(std::string_view line);
  Status take_word(std::string_view word, std::string_view rest);
  struct Words {
    std::string_view name, type, shape;
  };
  Status take_tensor(std::string_view text);
  Status take_state(std::string_view text);
  Status append(std::vector<DeclaredTensor>& list, std::size_t most, DeclaredTensor::Role role,
                const Words& words);
  Status take_tied(std::string_view text);
  Result<bool> complete() const;

  Declaration declaration_;
  std::set<std::string, std::less<>> names_;  // of tensors, with tied ones
  std::size_t lines_ = 0, floats_ = 0;
};

}  // namespace starling::node
