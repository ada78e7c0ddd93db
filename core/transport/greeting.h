// SPDX-License-Identifier: Apache-2.0
// The beginning of every connection between ranks: its purpose, and the proof that both ends belong
// to the job.
//
// The caller proves itself, the called one does, and then the caller says that it has chosen this
// connection. The caller may have called at several addresses, and a connection that looks complete
// at one end may be given up at the other. With a secret the proof is a TLS handshake; without one
// (security none) it is a token that guards against mistakes only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/status.h"
#include "secure/tls.h"
#include "transport/wire.h"

namespace hvd::transport {

inline constexpr int32_t kControlLane = -1;
// Streams of the control lane: the messages; and, without TLS around them, payloads of messages.
// Payloads have a connection for each way, because the system handles sending and receiving of a
// socket one after the other.
inline constexpr int32_t kMessages = 0;
inline constexpr int32_t kPayloadsOut = 1;   // from the caller
inline constexpr int32_t kPayloadsBack = 2;  // to the caller

// The purpose of a connection.
struct Call {
  int32_t from = -1;            // rank that connects
  int32_t to = -1;              // rank that accepts
  int32_t lane = kControlLane;  // or the lane whose data it carries
  int32_t stream = 0;           // among the connections of one lane and pair
};

// The secret and settings that the ranks of one rendezvous share.
struct Credentials {
  secure::Level level = secure::Level::kAuth;
  std::shared_ptr<const secure::Keyring> keyring;  // not null unless level is kNone
  std::string job = "job";
  int64_t epoch = 0;
  std::string token;       // for kNone
  bool seal_data = false;  // data that travels in plain carries checksums; not with kNone
};

class Greeting {
 public:
  // Whether a call of this kind may come now. Asked before the caller has proved anything.
  using Expected = std::function<bool(const Call&)>;

  // `socket` may still be connecting. `credentials` outlives the greeting.
  static Result<std::unique_ptr<Greeting>> call(Fd socket, const Credentials& credentials,
                                                const Call& call);
  static Result<std::unique_ptr<Greeting>> answer(Fd socket, const Credentials& credentials,
                                                  Expected expected);
  virtual ~Greeting() = default;

  // Takes the next step. Ok: done; for the caller, that the other end has proved itself. kPending:
  // again when fd() is ready for wants(). Anything else: the connection is of no use.
  virtual Status step() = 0;
  virtual short wants() const = 0;
  virtual int fd() const = 0;
  // The first message was right, so the other end knows the secret, or has recorded somebody who
  // does.
  virtual bool credible() const = 0;
  // At the accepting end, known when step() was ok.
  const Call& purpose() const { return call_; }

  // The caller's last word, after step() was ok.
  virtual Status choose() = 0;
  // After the accepting end's step() was ok, after the caller's choose(). TLS stays around control
  // messages, and around data and payloads if the level asks for it.
  virtual Result<std::unique_ptr<Wire>> take_wire() = 0;

 protected:
  Call call_;
};

}  // namespace hvd::transport
