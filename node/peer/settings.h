// The table of what the user of one peer can set besides the experiment: the own flags of `starling peer`,
// with their keys in the [daemon] table of a file and their variables. The experiment's settings
// (training/runs/experiment/settings/settings.h) have the same kind of table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "node/peer/options.h"
#include "training/runs/experiment/settings/setting.h"

namespace starling::node {

inline constexpr const char* kDefaultListen = "127.0.0.1:7100";

struct PeerSetting : training::SettingOf<DaemonOptions> {
  bool common = false;      // in the short help
  bool repeatable = false;  // set() adds a value
  // For the launcher that starts the peer. No help lists it, and neither a variable nor a file sets it.
  bool of_launcher = false;
  std::string needs{};  // "--checkpoints DIR": the flag without which this one has no effect; empty: none
};

// In the order of the help; those of a launcher are the last ones.
const std::vector<PeerSetting>& peer_settings();
// REQUIRES: a setting has this key.
const PeerSetting& peer_setting(std::string_view key);

// Checks what depends on several settings. The Error begins with a flag.
Status check_peer_options(const DaemonOptions& options);

}  // namespace starling::node
