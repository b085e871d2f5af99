// A file server on the loopback interface. It breaks connections, forgets files and sends wrong headers if
// the test wants it, and records its requests.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"

namespace starling::datasets {

class Mirror {
 public:
  struct File {
    std::string content;
    std::size_t cuts = 0;       // number of answers that are cut
    std::size_t cut_after = 0;  // bytes of the body before the cut
    bool knows_ranges = true;
    int status = 200;  // another status is sent without a body
    bool tells_length = true;
  };
  struct Request {
    std::string path;
    std::string range;  // "bytes=10-", or empty
  };

  explicit Mirror(std::map<std::string, File> files) : files_(std::move(files)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    STARLING_CHECK(listener_ >= 0 && ::bind(listener_, plain, length) == 0 && ::listen(listener_, 16) == 0);
    STARLING_CHECK(::getsockname(listener_, plain, &length) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Mirror() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  std::string base() const { return "http://127.0.0.1:" + std::to_string(port_) + "/sets"; }
  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void serve() {
    for (;;) {
      const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) return;
      answer(client);
      // Unread data from the client would reset the connection before the client has read the answer.
      ::shutdown(client, SHUT_WR);
      char rest[1024];
      while (::recv(client, rest, sizeof rest, 0) > 0) {
      }
      ::close(client);
    }
  }

  static void send_all(int client, const std::string& text) {
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t n = ::send(client, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<std::size_t>(n);
    }
  }

  void answer(int client) {
    std::string request;
    char buffer[2048];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t n = ::recv(client, buffer, sizeof buffer, 0);
      if (n <= 0) return;
      request.append(buffer, static_cast<std::size_t>(n));
    }
    const std::size_t begin = request.find(' ') + 1;
    Request asked{request.substr(begin, request.find(' ', begin) - begin), ""};
    if (const std::size_t at = request.find("Range: "); at != std::string::npos)
      asked.range = request.substr(at + 7, request.find('\r', at) - at - 7);
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(asked);
    }
    const auto found = files_.find(asked.path);
    if (found == files_.end()) return send_all(client, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    File& file = found->second;
    if (file.status != 200)
      return send_all(client, "HTTP/1.1 " + std::to_string(file.status) + " No\r\nContent-Length: 0\r\n\r\n");
    std::size_t from = 0;
    std::string head = "HTTP/1.1 200 OK\r\n";
    if (file.knows_ranges && !asked.range.empty()) {
      from = std::stoull(asked.range.substr(6));
      if (from >= file.content.size())
        return send_all(client, "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n");
      head = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " + std::to_string(from) + "-" +
             std::to_string(file.content.size() - 1) + "/" + std::to_string(file.content.size()) + "\r\n";
    }
    std::string body = file.content.substr(from);
    if (file.tells_length) head += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    if (file.cuts > 0 && body.size() > file.cut_after) {
      --file.cuts;
      body.resize(file.cut_after);
    }
    send_all(client, head + "Connection: close\r\n\r\n" + body);
  }

  std::map<std::string, File> files_;
  int listener_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
  std::thread thread_;
};

}  // namespace starling::datasets
