// Style limits. Each check returns the places over its limit with their numbers, to be compared with
// exceptions.txt.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/architecture/exceptions.h"
#include "tests/architecture/sources.h"

namespace starling::architecture {

inline constexpr int kLineColumns = 110;
inline constexpr int kDocumentColumns = 100;
inline constexpr int kFileLines = 600;
inline constexpr int kFunctionLines = 60;
inline constexpr int kClassMethods = 45;
inline constexpr int kClassMembers = 25;

// "line-columns": the number of lines of a file that are too wide. "file-lines". "header-prose": a header
// that does not begin with a comment.
std::vector<Finding> text_findings(const Source& source);

// "function-lines", "class-methods", "class-members".
std::vector<Finding> structure_findings(const Source& source);

// "shared-name": a type or function that headers of several rooms declare, with the number of rooms.
// Overloads that argument types choose among, such as to_string() and name(), are meant to be shared.
std::vector<Finding> name_findings(const std::vector<Source>& sources);

// "document-columns": the number of lines of prose that are too wide. Tables, headings, code blocks and link
// targets do not count.
std::vector<Finding> document_findings(const std::string& path, std::string_view text);

// "format": files that clang-format 14 would change. nullopt if that version is not installed.
std::optional<std::vector<Finding>> format_findings(const std::filesystem::path& root,
                                                    const std::vector<Source>& sources);

}  // namespace starling::architecture
