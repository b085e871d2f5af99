// The running program: its version, its file, near which files are that are installed with it, and what its
// terminal can show.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace starling {

// For display: "0.4.0" of a release, "0.4.0-dev+0123456789ab" of the sources before it, with their commit, or
// "0.4.0-dev+0123456789ab.dirty" if tracked files differ from it. cmake/Version.cmake generates this function
// at each build. What two programs can do together follows from the protocol's version (wire/frame.h).
std::string version();

// Absolute, with symbolic links resolved. Empty where /proc is not mounted.
std::filesystem::path program_path();

// Whether the descriptor is a terminal that understands escape codes (TERM is not "dumb").
bool can_redraw(int descriptor);

// The width of the terminal; 0 if the descriptor is no terminal, or has no width.
std::size_t terminal_columns(int descriptor);

// Whether the locale (LC_ALL, else LC_CTYPE, else LANG) has characters beyond ASCII. The locale "C" has none;
// if no variable is set, the terminal is expected to show UTF-8.
bool shows_utf8();

// The first characters of each line, so that none is longer than the terminal. `columns` 0: the whole text.
std::string cut_to_columns(std::string_view text, std::size_t columns);

}  // namespace starling
