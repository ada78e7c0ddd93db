// SPDX-License-Identifier: Apache-2.0
#include "secure/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "base/fd.h"
#include "secure/openssl.h"

namespace hvd::secure {
namespace {

constexpr size_t kDigits = 2 * Secret::kBytes;
constexpr Duration kReadTime = std::chrono::seconds(10);

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// A pipe or terminal that nobody writes to must not hold a program up for ever.
Status wait_for_input(int fd, Time deadline) {
  for (;;) {
    pollfd watched{fd, POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now()).count();
    const int ready = ::poll(&watched, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    if (ready > 0) return {};
    if (ready == 0) return {Code::kTimeout, "did not end in " + seconds_text(kReadTime) + " s"};
    if (errno != EINTR) return io_error("poll", errno);
  }
}

// Up to `room` bytes, from the beginning of a file, or from anything else until its end.
Result<std::string> read_some(int fd, size_t room) {
  std::string text(room, '\0');
  size_t got = 0;
  bool seekable = true;
  const Time deadline = now() + kReadTime;
  while (got < room) {
    if (const Status status = seekable ? Status() : wait_for_input(fd, deadline); !status.ok()) {
      wipe(text);
      return status;
    }
    ssize_t count = seekable ? ::pread(fd, text.data() + got, room - got, static_cast<off_t>(got))
                             : ::read(fd, text.data() + got, room - got);
    if (count < 0 && errno == ESPIPE && seekable) {
      seekable = false;
      continue;
    }
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) {
      const int number = errno;
      wipe(text);
      return io_error("read", number);
    }
    if (count == 0) break;
    got += static_cast<size_t>(count);
  }
  text.resize(got);
  return text;
}

Result<Secret> parse_and_wipe(std::string& text, const std::string& source) {
  size_t length = text.size();
  while (length > 0 &&
         (text[length - 1] == '\n' || text[length - 1] == '\r' || text[length - 1] == ' '))
    --length;
  Result<Secret> secret = Secret::parse(std::string_view(text).substr(0, length));
  wipe(text);
  if (secret.ok()) return secret;
  return Status(secret.status().code(), source + ": " + secret.status().message());
}

Status may_be_trusted(int fd) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) return io_error("stat", errno);
  if (!S_ISREG(info.st_mode)) return {Code::kInvalidArgument, "is no ordinary file"};
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return {Code::kInvalidArgument, "belongs to user " + std::to_string(info.st_uid) +
                                        ", not to this one (" + std::to_string(::geteuid()) + ")"};
  }
  if ((info.st_mode & 077) != 0) {
    return {Code::kInvalidArgument, "others may read or write it; chmod 600 makes it private"};
  }
  return {};
}

}  // namespace

class Secret::Page {
 public:
  static Result<std::shared_ptr<Page>> make() {
    const long size = ::sysconf(_SC_PAGESIZE);
    const size_t bytes = size > 0 ? static_cast<size_t>(size) : 4096;
    void* memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return io_error("secret: mmap", errno);
    // All three are precautions that some systems refuse; the secret works without them.
    ::mlock(memory, bytes);
    ::madvise(memory, bytes, MADV_DONTDUMP);
    ::madvise(memory, bytes, MADV_WIPEONFORK);
    return std::make_shared<Page>(static_cast<uint8_t*>(memory), bytes);
  }
  Page(uint8_t* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}
  ~Page() {
    ::explicit_bzero(memory_, kBytes);
    ::munmap(memory_, bytes_);
  }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  std::span<uint8_t, kBytes> bytes() const { return std::span<uint8_t, kBytes>(memory_, kBytes); }

 private:
  uint8_t* const memory_;
  const size_t bytes_;
};

void wipe(std::string& text) noexcept {
  ::explicit_bzero(text.data(), text.size());
  text.clear();
}

Result<Secret> Secret::from_bytes(std::span<const uint8_t, kBytes> bytes) {
  Result<std::shared_ptr<Page>> page = Page::make();
  if (!page.ok()) return page.status();
  std::copy(bytes.begin(), bytes.end(), page.value()->bytes().begin());
  return Secret(page.value());
}

Result<Secret> Secret::random() {
  Result<std::shared_ptr<Page>> page = Page::make();
  if (!page.ok()) return page.status();
  const std::span<uint8_t, kBytes> bytes = page.value()->bytes();
  ssize_t got = 0;
  do {
    got = ::getrandom(bytes.data(), bytes.size(), 0);
  } while (got < 0 && errno == EINTR);
  // Requests of this size are never answered in part.
  if (got != static_cast<ssize_t>(bytes.size()))
    return io_error("secret: getrandom", got < 0 ? errno : EIO);
  return Secret(page.value());
}

Result<Secret> Secret::parse(std::string_view text) {
  if (text.size() != kDigits) {
    return Status(Code::kInvalidArgument, "secret has " + std::to_string(text.size()) +
                                              " characters; allowed: " + std::to_string(kDigits) +
                                              " hexadecimal digits");
  }
  Key key;
  for (size_t i = 0; i < kBytes; ++i) {
    const int high = digit_value(text[2 * i]), low = digit_value(text[2 * i + 1]);
    if (high < 0 || low < 0) {
      return Status(Code::kInvalidArgument,
                    "secret has a character that is no hexadecimal digit at place " +
                        std::to_string(high < 0 ? 2 * i : 2 * i + 1));
    }
    key[i] = static_cast<uint8_t>(high * 16 + low);
  }
  Result<Secret> secret = from_bytes(key);
  ::explicit_bzero(key.data(), key.size());
  return secret;
}

Result<Secret> Secret::from_file(const std::string& path) {
  const std::string source = "secret file " + path;
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return io_error(source, errno);
  if (const Status trusted = may_be_trusted(file.get()); !trusted.ok()) {
    return Status(trusted.code(), source + ": " + trusted.message())
        .with_errno(trusted.sys_errno());
  }
  Result<std::string> text = read_some(file.get(), kDigits + 3);
  if (!text.ok()) return Status(text.status().code(), source + ": " + text.status().message());
  return parse_and_wipe(text.value(), source);
}

Result<Secret> Secret::from_descriptor(int fd) {
  const std::string source = "secret descriptor " + std::to_string(fd);
  const int flags = ::fcntl(fd, F_GETFD);
  if (flags < 0) {
    return Status(
               Code::kInvalidArgument,
               source + ": is not open; a program between the launcher and this one has closed it")
        .with_errno(errno);
  }
  ::fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
  Result<std::string> text = read_some(fd, kDigits + 3);
  if (!text.ok()) return Status(text.status().code(), source + ": " + text.status().message());
  return parse_and_wipe(text.value(), source);
}

std::string Secret::text() const {
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  text.reserve(kDigits);
  for (const uint8_t byte : page_->bytes()) {
    text += kHex[byte >> 4];
    text += kHex[byte & 15];
  }
  return text;
}

Result<Secret::Key> Secret::derive(std::string_view purpose) const {
  prepare_openssl();
  const std::unique_ptr<EVP_KDF, Release<EVP_KDF_free>> kdf(
      EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  const std::unique_ptr<EVP_KDF_CTX, Release<EVP_KDF_CTX_free>> context(
      kdf ? EVP_KDF_CTX_new(kdf.get()) : nullptr);
  if (!context) return openssl_error("key derivation");
  char digest[] = "SHA256";
  char salt[] = "hvd1";
  const std::span<uint8_t, kBytes> bytes = page_->bytes();
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt, sizeof salt - 1),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, bytes.data(), bytes.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, const_cast<char*>(purpose.data()),
                                        purpose.size()),
      OSSL_PARAM_construct_end(),
  };
  Key key{};
  if (EVP_KDF_derive(context.get(), key.data(), key.size(), parameters) != 1)
    return openssl_error("key derivation");
  return key;
}

}  // namespace hvd::secure
