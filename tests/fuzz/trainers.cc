// What a trainer of another program declares, and the tensors of a manifest: an error, or a layout whose
// table and text agree with it.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "models/layout_text.h"
#include "node/trainers/declaration.h"

using namespace starling;

namespace {

void declare(std::string_view text) {
  node::DeclarationReader reader;
  for (const std::string_view line : split(text, '\n')) {
    const auto complete = reader.take(line);
    if (!complete) {
      STARLING_CHECK(!complete.error().message.empty());
      return;
    }
    if (!*complete) continue;
    const auto& declaration = reader.declaration();
    const models::Layout layout = declaration.layout();
    STARLING_CHECK(layout.tensors().size() == declaration.tensors.size());
    STARLING_CHECK(layout.trained_size() > 0 && layout.arena_size() % 16 == 0);
    STARLING_CHECK(split(declaration.table(), '\n').size() == layout.tensors().size() + 1);
    STARLING_CHECK(models::parse_layout(models::layout_text(layout))->fingerprint() == layout.fingerprint());
    return;
  }
}

void read_tensors(std::string_view text) {
  const auto layout = models::parse_layout(text);
  if (!layout) return;
  const auto again = models::parse_layout(models::layout_text(*layout));
  STARLING_CHECK(again.ok() && again->fingerprint() == layout->fingerprint());
  STARLING_CHECK(!models::difference(*layout, *again));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] % 2 == 0)
    declare(text);
  else
    read_tensors(text);
  return 0;
}
