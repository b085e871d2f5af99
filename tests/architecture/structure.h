// Functions, classes and names of a source, found by matching braces. Supports only declarations as this
// project writes them, without macros that open or close scopes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/architecture/sources.h"

namespace starling::architecture {

struct Function {
  std::string name;      // as defined: "World::step"; a test case's is "TEST_CASE"
  std::size_t line = 0;  // from 1
  int lines = 0;         // from the first line of its head to its closing brace
};

struct Class {
  std::string name;
  std::size_t line = 0;
  int methods = 0;  // declared or defined in the class; not those that are = default or = delete
  int members = 0;  // non-static data members
};

struct Structure {
  std::vector<Function> functions;
  std::vector<Class> classes;
  // Types defined and functions declared at namespace scope, outside of unnamed namespaces.
  std::vector<std::string> names;
};

Structure structure_of(const Source& source);

}  // namespace starling::architecture
