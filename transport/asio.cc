// Asio's implementation, compiled once (ASIO_SEPARATE_COMPILATION). A standard header comes first: Asio's
// configuration reads libstdc++'s macros, which must be the same here as in every other file.
#include <cstddef>

#include <asio/impl/src.hpp>
