// Requests to a running peer at its --http address, which --at or STARLING_AT names.
#pragma once

#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "cli/shell/arguments.h"
#include "node/front/status.h"

namespace starling::cli {

inline constexpr const char* kDefaultAt = "127.0.0.1:7180";

struct AskedPeer {
  Address at;
  bool is_default = false;  // neither --at nor STARLING_AT is given
  bool is_stated = false;   // by the member of a swarm, who can state any address: it gets no token
};

// Adds STARLING_AT to the arguments. An Error is for refuse().
Result<AskedPeer> peer_to_ask(Arguments& arguments);
// The body of a GET, or of a POST that may take long, with the peer's token, which may be empty; an Error is
// for fail().
Result<std::string> get(const AskedPeer& peer, const std::string& path);
Result<std::string> post(const AskedPeer& peer, const std::string& path, const std::string& body,
                         const std::string& token);

// "97.20 % at step 1200"; "-" before the first evaluation.
std::string accuracy_text(const node::PeerStatus& status);
// The member's state in one word, also where an older peer lists it.
std::string condition(const node::MemberStatus& member);

// --at, with kDefaultAt.
Flag at_flag();
// --token-file, for a POST; its value is read_token()'s (secrets.h).
Flag token_file_flag();

// "127.0.0.1:7180", "http://127.0.0.1:7180/", or for this machine "7180" or ":7180". The Error does not name
// the flag.
Result<Address> parse_at(std::string_view text);

}  // namespace starling::cli
