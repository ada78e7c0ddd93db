// SPDX-License-Identifier: Apache-2.0
#include "transport/greeting.h"

#include <hvd/version.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "transport/board.h"
#include "transport/sealed_wire.h"

namespace hvd::transport {
namespace {

constexpr std::byte kChosen{0x68};

// "control", "payload.out", "payload.back" or "lane.<lane>.<stream>".
std::string purpose_text(const Call& call) {
  if (call.lane == kControlLane && call.stream == kPayloadsOut) return "payload.out";
  if (call.lane == kControlLane) return call.stream == kPayloadsBack ? "payload.back" : "control";
  return "lane." + std::to_string(call.lane) + "." + std::to_string(call.stream);
}

bool read_number(std::string_view text, int32_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && number >= 0;
}

std::optional<Call> call_of(const secure::Identity& identity) {
  Call call{identity.client, identity.server, kControlLane, 0};
  if (identity.purpose == "control") return call;
  for (const int32_t stream : {kPayloadsOut, kPayloadsBack}) {
    call.stream = stream;
    if (identity.purpose == purpose_text(call)) return call;
  }
  const std::string_view text = identity.purpose;
  const size_t dot = text.find('.', 5);
  if (!text.starts_with("lane.") || dot == std::string_view::npos) return std::nullopt;
  if (!read_number(text.substr(5, dot - 5), call.lane) ||
      !read_number(text.substr(dot + 1), call.stream))
    return std::nullopt;
  // Numbers have more than one spelling; identities must not.
  return purpose_text(call) == text ? std::optional(call) : std::nullopt;
}

class TlsGreeting final : public Greeting {
 public:
  TlsGreeting(const Credentials& credentials, const Call& call, bool answering)
      : credentials_(credentials), answering_(answering) {
    call_ = call;
  }

  Status open(Fd socket, Expected expected) {
    auto made =
        answering_ ? credentials_.keyring->accept(std::move(socket), admission(std::move(expected)))
                   : credentials_.keyring->connect(std::move(socket), identity());
    if (!made.ok()) return made.status();
    tls_ = std::move(made).value();
    return {};
  }

  Status step() override {
    if (!proved_) {
      HVD_TRY(tls_->handshake());
      proved_ = true;
      if (answering_) call_ = *call_of(tls_->identity());
    }
    if (!answering_) return {};
    std::byte word{};
    const Result<size_t> got = tls_->read(std::span(&word, 1));
    if (!got.ok()) return got.status();
    return word == kChosen ? Status() : Status(Code::kMismatch, "sent a wrong word");
  }

  short wants() const override { return tls_->wants(); }
  bool credible() const override { return !tls_->identity().job.empty(); }
  int fd() const override { return tls_->fd(); }

  Status choose() override {
    // A new connection has room for a few bytes at once.
    const Result<size_t> sent = tls_->write(std::span(&kChosen, 1));
    if (sent.ok()) return {};
    return sent.status().code() == Code::kPending ? io_error("send", EAGAIN) : sent.status();
  }

  Result<std::unique_ptr<Wire>> take_wire() override {
    const bool messages = call_.lane == kControlLane && call_.stream == kMessages;
    if (messages || credentials_.level == secure::Level::kEncrypt) return tls_wire(std::move(tls_));
    if (!credentials_.seal_data) return plain_wire(tls_->release());
    Result<secure::Seals> seals = tls_->make_seals();
    if (!seals.ok()) return seals.status();
    return sealed_wire(tls_->release(), std::move(seals).value());
  }

 private:
  secure::Identity identity() const {
    return {credentials_.job, credentials_.epoch, call_.from, call_.to, purpose_text(call_)};
  }
  secure::Keyring::Admit admission(Expected expected) const {
    return [this, expected = std::move(expected)](const secure::Identity& claimed) {
      const std::optional<Call> call = call_of(claimed);
      return call && claimed.job == credentials_.job && claimed.epoch == credentials_.epoch &&
             expected(*call);
    };
  }

  const Credentials& credentials_;
  const bool answering_;
  bool proved_ = false;
  std::unique_ptr<secure::TlsSocket> tls_;
};

// Sent by the caller before anything else. Numbers travel in the byte order of x86 and ARM.
struct Hello {
  uint64_t magic = 0x6876642d74637032;
  uint32_t protocol = kProtocolVersion;
  Call call;
  int64_t epoch = 0;
  std::array<char, 32> token{};
  std::array<char, 24> library{};
};
static_assert(sizeof(Hello) == 96);

template <size_t N>
void copy_text(const std::string& text, std::array<char, N>& to) {
  std::memcpy(to.data(), text.data(), std::min(text.size(), to.size()));
}

// Takes the same time wherever the first difference is.
bool same_token(const std::array<char, 32>& given, const std::string& expected) {
  std::array<char, 32> wanted{};
  copy_text(expected, wanted);
  unsigned difference = 0;
  for (size_t i = 0; i < wanted.size(); ++i)
    difference |= static_cast<unsigned char>(given[i] ^ wanted[i]);
  return difference == 0;
}

class PlainGreeting final : public Greeting {
 public:
  PlainGreeting(Fd socket, const Credentials& credentials, const Call& call, Expected expected)
      : socket_(std::move(socket)), credentials_(credentials), expected_(std::move(expected)) {
    call_ = call;
    if (answering()) return;
    hello_.call = call;
    hello_.epoch = credentials.epoch;
    copy_text(credentials.token, hello_.token);
    copy_text(HVD_VERSION_STRING, hello_.library);
  }

  // Caller: hello out, one byte in. Accepting end: hello in, one byte out, one byte in.
  Status step() override {
    if (!answering()) {
      HVD_TRY(send_hello());
      return receive_word();
    }
    HVD_TRY(receive_hello());
    return receive_word();
  }

  short wants() const override { return !answering() && done_ < sizeof(Hello) ? POLLOUT : POLLIN; }
  bool credible() const override { return done_ >= sizeof(Hello); }
  int fd() const override { return socket_.get(); }
  Status choose() override { return send_word(); }
  Result<std::unique_ptr<Wire>> take_wire() override { return plain_wire(std::move(socket_)); }

 private:
  bool answering() const { return expected_ != nullptr; }

  Status send_hello() {
    while (done_ < sizeof(Hello)) {
      const auto* from = reinterpret_cast<const char*>(&hello_);
      const ssize_t sent =
          ::send(socket_.get(), from + done_, sizeof(Hello) - done_, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) return waiting(errno) ? Status::pending() : io_error("connect", errno);
      done_ += static_cast<size_t>(sent);
    }
    return {};
  }

  Status receive_hello() {
    while (done_ < sizeof(Hello)) {
      auto* into = reinterpret_cast<char*>(&hello_);
      HVD_TRY(receive_some(into + done_, sizeof(Hello) - done_));
      const Hello ours;
      if (done_ >= sizeof ours.magic && hello_.magic != ours.magic)
        return {Code::kMismatch, "not of this protocol"};
      if (done_ < sizeof(Hello)) continue;
      if (hello_.protocol != ours.protocol) return {Code::kVersion, "another protocol version"};
      if (!same_token(hello_.token, credentials_.token)) return {Code::kMismatch, "wrong token"};
      if (hello_.epoch != credentials_.epoch || !expected_(hello_.call))
        return {Code::kMismatch, "not expected"};
      call_ = hello_.call;
      return send_word();
    }
    return {};
  }

  Status receive_some(char* into, size_t room) {
    const ssize_t got = ::recv(socket_.get(), into, room, MSG_DONTWAIT);
    if (got == 0) return {Code::kPeerLost, "closed before its hello was complete"};
    if (got < 0) return waiting(errno) ? Status::pending() : io_error("receive", errno);
    done_ += static_cast<size_t>(got);
    return {};
  }

  Status send_word() {
    // A new connection has room for a few bytes at once.
    if (::send(socket_.get(), &kChosen, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
      return io_error("send", errno);
    return {};
  }

  Status receive_word() {
    std::byte word{};
    HVD_TRY(receive_some(reinterpret_cast<char*>(&word), 1));
    return word == kChosen ? Status() : Status(Code::kMismatch, "sent a wrong word");
  }

  // ENOTCONN: still being connected.
  static bool waiting(int error) { return error == EAGAIN || error == EINTR || error == ENOTCONN; }

  Fd socket_;
  const Credentials& credentials_;
  const Expected expected_;
  Hello hello_;
  size_t done_ = 0;
};

}  // namespace

Result<std::unique_ptr<Greeting>> Greeting::call(Fd socket, const Credentials& credentials,
                                                 const Call& call) {
  if (credentials.level == secure::Level::kNone) {
    return std::unique_ptr<Greeting>(
        std::make_unique<PlainGreeting>(std::move(socket), credentials, call, nullptr));
  }
  auto greeting = std::make_unique<TlsGreeting>(credentials, call, false);
  HVD_TRY(greeting->open(std::move(socket), nullptr));
  return std::unique_ptr<Greeting>(std::move(greeting));
}

Result<std::unique_ptr<Greeting>> Greeting::answer(Fd socket, const Credentials& credentials,
                                                   Expected expected) {
  if (credentials.level == secure::Level::kNone) {
    return std::unique_ptr<Greeting>(std::make_unique<PlainGreeting>(std::move(socket), credentials,
                                                                     Call{}, std::move(expected)));
  }
  auto greeting = std::make_unique<TlsGreeting>(credentials, Call{}, true);
  HVD_TRY(greeting->open(std::move(socket), std::move(expected)));
  return std::unique_ptr<Greeting>(std::move(greeting));
}

}  // namespace hvd::transport
