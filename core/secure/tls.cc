// SPDX-License-Identifier: Apache-2.0
#include "secure/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "secure/openssl.h"

namespace hvd::secure {
namespace {

constexpr unsigned char kCipher[2] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256

using Context = std::unique_ptr<SSL_CTX, Release<SSL_CTX_free>>;
using Session = std::unique_ptr<SSL_SESSION, Release<SSL_SESSION_free>>;

// The socket that a connection's I/O works on. OpenSSL's own BIO would raise SIGPIPE and read
// without limit.
struct Wire {
  int fd = -1;
  size_t budget = TlsSocket::kMostBeforeAuthentication;  // bytes that may still be read
  bool drained = false;                                  // the last look took all there was
  bool closed = false;
  bool over_budget = false;
  int error = 0;
};

int wire_write(BIO* bio, const char* bytes, int count) {
  Wire& wire = *static_cast<Wire*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const ssize_t sent =
      ::send(wire.fd, bytes, static_cast<size_t>(count), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return static_cast<int>(sent);
  // ENOTCONN: still being connected.
  if (errno == EAGAIN || errno == EINTR || errno == ENOTCONN) {
    BIO_set_retry_write(bio);
  } else {
    wire.error = errno;
  }
  return -1;
}

int wire_read(BIO* bio, char* bytes, int count) {
  Wire& wire = *static_cast<Wire*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (wire.budget == 0) {
    wire.over_budget = true;
    return -1;
  }
  const size_t room = std::min(static_cast<size_t>(count), wire.budget);
  const ssize_t got = ::recv(wire.fd, bytes, room, MSG_DONTWAIT);
  wire.drained = got < static_cast<ssize_t>(room);
  if (got > 0) {
    if (wire.budget != SIZE_MAX) wire.budget -= static_cast<size_t>(got);
    return static_cast<int>(got);
  }
  if (got == 0) {
    wire.closed = true;
    return 0;
  }
  if (errno == EAGAIN || errno == EINTR || errno == ENOTCONN) {
    BIO_set_retry_read(bio);
  } else {
    wire.error = errno;
  }
  return -1;
}

long wire_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

using Method = std::unique_ptr<BIO_METHOD, Release<BIO_meth_free>>;

Method wire_method() {
  // No type of its own, because nothing looks for the type, and a process has numbers for a hundred
  // types only.
  Method method(BIO_meth_new(BIO_TYPE_SOURCE_SINK, "hvd"));
  if (!method) return method;
  BIO_meth_set_write(method.get(), wire_write);
  BIO_meth_set_read(method.get(), wire_read);
  BIO_meth_set_ctrl(method.get(), wire_control);
  return method;
}

using Ssl = std::unique_ptr<SSL, Release<SSL_free>>;

class Connection final : public TlsSocket {
 public:
  // `keyring` keeps alive what `ssl` was made from.
  Connection(std::shared_ptr<const Keyring> keyring, Fd socket, bool accepting, Identity identity,
             Keyring::Admit admit)
      : keyring_(std::move(keyring)),
        socket_(std::move(socket)),
        accepting_(accepting),
        identity_(std::move(identity)),
        admit_(std::move(admit)) {
    wire_.fd = socket_.get();
  }

  Status open(SSL_CTX* context, const BIO_METHOD* method) {
    ssl_.reset(SSL_new(context));
    BIO* bio = ssl_ ? BIO_new(method) : nullptr;
    if (bio == nullptr) return openssl_error("TLS");
    BIO_set_data(bio, &wire_);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_.get(), bio, bio);
    if (SSL_set_app_data(ssl_.get(), this) != 1) return openssl_error("TLS");
    if (accepting_) {
      SSL_set_accept_state(ssl_.get());
    } else {
      SSL_set_connect_state(ssl_.get());
    }
    return {};
  }

  Status handshake() override {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_.get());
    if (result == 1) {
      wire_.budget = SIZE_MAX;
      return {};
    }
    return failure(result, "handshake");
  }

  short wants() const override { return SSL_want_write(ssl_.get()) ? POLLOUT : POLLIN; }
  const Identity& identity() const override { return identity_; }

  Result<size_t> read(std::span<std::byte> into) override {
    ERR_clear_error();
    const int result =
        SSL_read(ssl_.get(), into.data(), static_cast<int>(std::min<size_t>(into.size(), INT_MAX)));
    if (result > 0) return static_cast<size_t>(result);
    return failure(result, "receive");
  }

  Result<size_t> write(std::span<const std::byte> from) override {
    ERR_clear_error();
    const int result = SSL_write(ssl_.get(), from.data(),
                                 static_cast<int>(std::min<size_t>(from.size(), INT_MAX)));
    if (result > 0) return static_cast<size_t>(result);
    return failure(result, "send");
  }

  bool buffered() const override { return SSL_has_pending(ssl_.get()) == 1; }
  bool drained() const override { return wire_.drained; }
  void read_ahead() override { SSL_set_read_ahead(ssl_.get(), 1); }
  Result<Seals> make_seals() const override {
    Result<std::unique_ptr<Seal>> client = seal("EXPORTER-hvd-data-client"),
                                  server = seal("EXPORTER-hvd-data-server");
    if (!client.ok()) return client.status();
    if (!server.ok()) return server.status();
    if (accepting_) std::swap(client, server);
    return Seals{std::move(client).value(), std::move(server).value()};
  }
  int fd() const override { return socket_.get(); }
  Fd release() override {
    ssl_.reset();
    return std::move(socket_);
  }

  bool accepts(const Identity& claimed) const { return admit_(claimed); }
  void identify(Identity proved) noexcept { identity_ = std::move(proved); }
  void found_no_memory() noexcept { no_memory_ = true; }
  // As long as the connection lives.
  const std::string& name_of_key() { return name_of_key_ = identity_.text(); }

  // The session that stands for the key of `identity`.
  Session session(SSL* ssl, const Identity& identity) const {
    Result<Secret::Key> key = keyring_->secret().derive(identity.text());
    const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kCipher);
    Session session(key.ok() && cipher != nullptr ? SSL_SESSION_new() : nullptr);
    const bool made =
        session &&
        SSL_SESSION_set1_master_key(session.get(), key.value().data(), key.value().size()) == 1 &&
        SSL_SESSION_set_cipher(session.get(), cipher) == 1 &&
        SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) == 1;
    if (key.ok()) ::explicit_bzero(key.value().data(), key.value().size());
    if (!made) session.reset();
    return session;
  }

 private:
  Result<std::unique_ptr<Seal>> seal(std::string_view label) const {
    Secret::Key key{};
    if (SSL_export_keying_material(ssl_.get(), key.data(), key.size(), label.data(), label.size(),
                                   nullptr, 0, 0) != 1) {
      return openssl_error("TLS");
    }
    Result<std::unique_ptr<Seal>> seal = Seal::make(key);
    ::explicit_bzero(key.data(), key.size());
    return seal;
  }

  Status failure(int result, const char* doing) {
    const int why = SSL_get_error(ssl_.get(), result);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return Status::pending();
    if (no_memory_) {
      ERR_clear_error();
      return Status::out_of_memory();
    }
    if (wire_.over_budget) {
      return {Code::kMismatch, "sent more than " + std::to_string(kMostBeforeAuthentication) +
                                   " bytes before it proved itself"};
    }
    if (why == SSL_ERROR_ZERO_RETURN || wire_.closed) {
      ERR_clear_error();
      return {Code::kPeerLost, "closed the connection"};
    }
    const int error = std::exchange(wire_.error, 0);
    // A reset is how the system closes a connection with unread input.
    if (error == ECONNRESET || error == EPIPE)
      return Status(Code::kPeerLost, "closed the connection").with_errno(error);
    if (error != 0) return io_error(doing, error);
    const Status reason = openssl_error("TLS");
    return {SSL_is_init_finished(ssl_.get()) ? Code::kIo : Code::kMismatch, reason.message()};
  }

  const std::shared_ptr<const Keyring> keyring_;
  Fd socket_;
  Wire wire_;
  const bool accepting_;
  Identity identity_;
  std::string name_of_key_;
  bool no_memory_ = false;
  const Keyring::Admit admit_;
  Ssl ssl_;
};

// No exception may pass through OpenSSL. Without memory the handshake fails, and the connection
// says why.
template <class Work>
int without_exception(Connection& connection, Work&& work) noexcept {
  try {
    return work() ? 1 : 0;
  } catch (...) {
    connection.found_no_memory();
    return 0;
  }
}

int find_key(SSL* ssl, const unsigned char* name, size_t length, SSL_SESSION** session) {
  *session = nullptr;
  auto& connection = *static_cast<Connection*>(SSL_get_app_data(ssl));
  return without_exception(connection, [&] {
    const std::optional<Identity> claimed =
        Identity::parse({reinterpret_cast<const char*>(name), length});
    if (!claimed || !connection.accepts(*claimed)) return true;  // no session: the handshake fails
    *session = connection.session(ssl, *claimed).release();
    if (*session != nullptr) connection.identify(*claimed);
    return true;
  });
}

int use_key(SSL* ssl, const EVP_MD*, const unsigned char** name, size_t* length,
            SSL_SESSION** session) {
  auto& connection = *static_cast<Connection*>(SSL_get_app_data(ssl));
  return without_exception(connection, [&] {
    // OpenSSL copies the name only after this has returned.
    const std::string& text = connection.name_of_key();
    *session = connection.session(ssl, connection.identity()).release();
    *name = reinterpret_cast<const unsigned char*>(text.data());
    *length = text.size();
    return *session != nullptr;
  });
}

Context make_context(const SSL_METHOD* method) {
  Context context(SSL_CTX_new(method));
  if (!context) return context;
  const bool ok = SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
                  SSL_CTX_set_ciphersuites(context.get(), "TLS_AES_128_GCM_SHA256") == 1 &&
                  SSL_CTX_set1_groups_list(context.get(), "X25519:P-256") == 1 &&
                  SSL_CTX_set_num_tickets(context.get(), 0) == 1;
  if (!ok) return nullptr;
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  return context;
}

class Ring final : public Keyring, public std::enable_shared_from_this<Ring> {
 public:
  explicit Ring(Secret secret) : secret_(std::move(secret)) {}

  Status open() {
    prepare_openssl();
    method_ = wire_method();
    connecting_ = make_context(TLS_client_method());
    accepting_ = make_context(TLS_server_method());
    if (!method_ || !connecting_ || !accepting_) return openssl_error("TLS");
    SSL_CTX_set_psk_use_session_callback(connecting_.get(), use_key);
    SSL_CTX_set_psk_find_session_callback(accepting_.get(), find_key);
    return {};
  }

  Result<std::unique_ptr<TlsSocket>> connect(Fd socket, const Identity& identity) const override {
    return open_connection(std::make_unique<Connection>(shared_from_this(), std::move(socket),
                                                        false, identity, nullptr),
                           connecting_.get());
  }
  Result<std::unique_ptr<TlsSocket>> accept(Fd socket, Admit admit) const override {
    return open_connection(std::make_unique<Connection>(shared_from_this(), std::move(socket), true,
                                                        Identity{}, std::move(admit)),
                           accepting_.get());
  }
  const Secret& secret() const override { return secret_; }

 private:
  Result<std::unique_ptr<TlsSocket>> open_connection(std::unique_ptr<Connection> connection,
                                                     SSL_CTX* context) const {
    HVD_TRY(connection->open(context, method_.get()));
    return std::unique_ptr<TlsSocket>(std::move(connection));
  }

  const Secret secret_;
  Method method_;
  Context connecting_;
  Context accepting_;
};

}  // namespace

const char* level_name(Level level) {
  if (level == Level::kNone) return "none";
  return level == Level::kEncrypt ? "encrypt" : "auth";
}

Result<std::shared_ptr<Keyring>> Keyring::make(Secret secret) {
  auto ring = std::make_shared<Ring>(std::move(secret));
  HVD_TRY(ring->open());
  return std::shared_ptr<Keyring>(std::move(ring));
}

}  // namespace hvd::secure
