// The manifest of a run: what its first peer publishes, and what each joiner compares with its own layout and
// settings.
#pragma once

#include <string>

#include "models/layout.h"
#include "training/experiment/settings.h"

namespace starling::training {

// Manifest: wire::Manifest, which this room does not include.
template <class Manifest>
Manifest manifest_of(const Experiment& experiment, const models::Layout& layout, const std::string& data) {
  Manifest manifest;
  manifest.model = experiment.model;
  manifest.data = data;
  manifest.fingerprint = layout.fingerprint();
  manifest.arena_floats = layout.arena_size();
  manifest.seed = experiment.seed;
  for (const auto& [key, value] : shared_settings(experiment)) manifest.settings.push_back({key, value});
  return manifest;
}

}  // namespace starling::training
