// Asio's implementation, compiled once (ASIO_SEPARATE_COMPILATION). A standard header comes first: Asio's
// configuration asks libstdc++'s own macros, and must find the same answers here as in every other file.
#include <cstddef>

#include <asio/impl/src.hpp>
