// SPDX-License-Identifier: Apache-2.0
#include "hostile.h"

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <fstream>
#include <mutex>

#include "rendezvous/store_protocol.h"

namespace hvd::rendezvous {
namespace {

void wait_for(int fd, short events) {
  pollfd watched{fd, events, 0};
  ::poll(&watched, 1, 1000);
}

// Moves what is there from one socket to the other, and notes it. False at the end.
bool forward(int from, int to, std::string* noted) {
  char buffer[4096];
  const ssize_t got = ::recv(from, buffer, sizeof buffer, MSG_DONTWAIT);
  if (got < 0) return true;
  if (got == 0) return false;
  if (noted != nullptr) noted->append(buffer, static_cast<size_t>(got));
  return ::send(to, buffer, static_cast<size_t>(got), MSG_NOSIGNAL) == got;
}

Bytes hello_of(const std::string& job, int64_t rank) {
  Bytes hello;
  put_request(hello, {Verb::kHello, rank, job, kGreeting});
  return hello;
}

}  // namespace

std::shared_ptr<const secure::Keyring> keyring_of(char digit) {
  return secure::Keyring::make(secure::Secret::parse(std::string(64, digit)).value()).value();
}

StoreSettings secret_settings(int rank, int size, Time deadline, char digit) {
  StoreSettings settings = settings_of(rank, size, deadline);
  settings.keyring = keyring_of(digit);
  return settings;
}

SocketAddress address_of(const TcpUrl& url) {
  return SocketAddress::parse(url.candidates[0].host, url.candidates[0].port).value();
}

Fd raw_connection(const SocketAddress& to, const std::string& from) {
  Fd socket(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!from.empty()) {
    const SocketAddress own = SocketAddress::parse(from, 0).value();
    EXPECT_EQ(::bind(socket.get(), own.get(), own.size), 0);
  }
  EXPECT_EQ(::connect(socket.get(), to.get(), to.size), 0);
  return socket;
}

void send_text(const Fd& socket, std::string_view text) {
  static_cast<void>(!::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL));
}

bool is_closed_within(const Fd& socket, Duration limit) {
  const Time end = now() + limit;
  char buffer[4096];
  while (now() < end) {
    pollfd watched = {socket.get(), POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - now()).count();
    if (::poll(&watched, 1, static_cast<int>(left)) == 1 &&
        ::recv(socket.get(), buffer, sizeof buffer, 0) <= 0)
      return true;
  }
  return false;
}

std::string ordinary_client_hello() {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL* ssl = SSL_new(context);
  BIO* out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl, BIO_new(BIO_s_mem()), out);
  SSL_set_tlsext_host_name(ssl, "example.org");
  SSL_connect(ssl);
  char* data = nullptr;
  const long size = BIO_get_mem_data(out, &data);
  std::string hello(data, static_cast<size_t>(size));
  SSL_free(ssl);
  SSL_CTX_free(context);
  return hello;
}

std::string recording_of_a_rank(const SocketAddress& server, const ClientInfo& who) {
  int pair[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
  const Fd relay(pair[1]);
  const Fd onward = raw_connection(server);
  auto client = who.keyring->connect(Fd(pair[0]), store_identity(who.job, who.rank)).value();
  const Bytes hello = hello_of(who.job, who.rank);
  std::string noted;
  bool sent = false;
  std::byte reply[512];
  for (const Time end = now() + 10s; now() < end;) {
    if (!sent && client->handshake().ok()) sent = client->write(hello).ok();
    forward(relay.get(), onward.get(), &noted);
    if (sent && client->read(reply).ok()) return noted;
    wait_for(onward.get(), POLLIN);
    EXPECT_TRUE(forward(onward.get(), relay.get(), nullptr));
  }
  ADD_FAILURE() << "the rank to record was not welcome";
  return noted;
}

Status outcome_of(const SocketAddress& server, const ClientInfo& who) {
  const Target target = Target::of(server);
  Attempt attempt(target, who);
  Status status = attempt.step();
  for (const Time end = now() + 10s; status.code() == Code::kPending && now() < end;
       status = attempt.step()) {
    wait_for(attempt.fd(), attempt.wants());
  }
  return status;
}

Status outcome_of(const SocketAddress& server, const secure::Keyring& keyring,
                  const secure::Identity& identity, int64_t rank) {
  auto client = keyring.connect(raw_connection(server), identity).value();
  Status status = client->handshake();
  for (; status.code() == Code::kPending; status = client->handshake())
    wait_for(client->fd(), client->wants());
  if (!status.ok()) return status;
  Result<size_t> done = client->write(hello_of(identity.job, rank));
  Bytes reply(kFrameHeader + kReplyHeader);
  if (done.ok()) {
    while ((done = client->read(reply)).status().code() == Code::kPending)
      wait_for(client->fd(), client->wants());
  }
  return done.status();
}

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

size_t resident_kib() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0;
  file >> pages >> pages;
  return pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE)) / 1024;
}

struct LineCounter::Lines {
  std::mutex mutex;
  std::vector<std::string> lines;
};

std::shared_ptr<const Logger> LineCounter::logger() {
  lines_ = std::make_shared<Lines>();
  return std::make_shared<Logger>(
      [lines = lines_](LogLevel, int, const char*, const char* message) {
        std::lock_guard lock(lines->mutex);
        lines->lines.emplace_back(message);
      },
      LogLevel::kWarn);
}

std::vector<std::string> LineCounter::lines() const {
  std::lock_guard lock(lines_->mutex);
  return lines_->lines;
}

}  // namespace hvd::rendezvous
