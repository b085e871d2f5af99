// Describes the run of a world, one sentence per line: incidents, exchanges, and what each peer learned of
// the others. The checks are those of Checkers.
#pragma once

#include <cstddef>
#include <string>

#include "lab/hunt/checkers.h"

namespace starling::lab {

class Story final : public Checkers {
 public:
  // Appends to `text`, which outlives the story.
  Story(CheckSetting setting, std::string& text) : Checkers(setting), text_(text) {}

  void watch(const World& world) override;
  void finish() override;  // adds the final views, after the checks

  void started(std::uint32_t machine) override;
  void ended(std::uint32_t machine, MachineState state) override;
  void event(std::uint32_t machine, const gossip::Event& event) override;
  void action(std::uint32_t machine, const gossip::Action& action) override;
  void lost_parameters(std::uint32_t machine) override;
  void has_parameters(std::uint32_t machine) override;
  void half_applied(std::uint32_t machine, std::uint64_t exchange, std::size_t chunk) override;
  void poison_arrived(std::uint32_t machine, std::uint32_t from, bool refused) override;
  void mutation_arrived(std::uint32_t machine, std::uint32_t from, bool refused) override;

 private:
  void tell(std::uint32_t machine, const std::string& sentence);
  void tell_incidents();
  void line(Instant at, const std::string& text);
  std::string name(std::uint32_t machine) const;
  std::string name(PeerId id) const;

  std::string& text_;
  const World* world_ = nullptr;
  std::size_t incidents_told_ = 0;
};

}  // namespace starling::lab
