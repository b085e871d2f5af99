// The sentence about an address at which this process cannot listen. Used by links and by the HTTP server.
#pragma once

#include <string>

#include <asio/error.hpp>

#include "base/ids.h"
#include "base/result.h"

namespace starling::transport {

// `purpose`: "" or " for HTTP".
inline Error listen_error(const Address& at, const asio::error_code& error, const std::string& purpose = "") {
  std::string why = error.message();
  if (error == asio::error::address_in_use)
    why = "the port is in use by another program; choose another, or 0 for any";
  if (error == asio::error_code(EADDRNOTAVAIL, asio::error::get_system_category()))
    why = "no interface of this machine has that address (`ip -brief address` lists them)";
  return Error{"cannot listen at " + to_string(at) + purpose + ": " + why};
}

}  // namespace starling::transport
