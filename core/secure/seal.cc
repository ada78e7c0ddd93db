// SPDX-License-Identifier: Apache-2.0
#include "secure/seal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstring>

#include "secure/openssl.h"

namespace hvd::secure {
namespace {

// AES-128-GCM over nothing but associated data (GMAC), whose nonce is the number of the record.
class Gmac final : public Seal {
 public:
  Status open(const Secret::Key& key) {
    prepare_openssl();
    const std::unique_ptr<EVP_CIPHER, Release<EVP_CIPHER_free>> cipher(
        EVP_CIPHER_fetch(nullptr, "AES-128-GCM", nullptr));
    context_.reset(cipher ? EVP_CIPHER_CTX_new() : nullptr);
    if (!context_ ||
        EVP_EncryptInit_ex2(context_.get(), cipher.get(), key.data(), nullptr, nullptr) != 1) {
      return openssl_error("checksum");
    }
    return {};
  }

  Result<Tag> next(std::span<const iovec> pieces) override {
    std::array<unsigned char, 12> nonce{};
    std::memcpy(nonce.data(), &count_, sizeof count_);
    ++count_;
    Tag tag{};
    int unused = 0;
    bool ok = EVP_EncryptInit_ex2(context_.get(), nullptr, nullptr, nonce.data(), nullptr) == 1;
    for (const iovec& piece : pieces) ok = ok && add(piece);
    ok = ok &&
         EVP_EncryptFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(tag.data()),
                             &unused) == 1 &&
         EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, static_cast<int>(tag.size()),
                             tag.data()) == 1;
    if (!ok) return openssl_error("checksum");
    return tag;
  }

 private:
  bool add(const iovec& piece) {
    const auto* bytes = static_cast<const unsigned char*>(piece.iov_base);
    for (size_t at = 0; at < piece.iov_len;) {
      const int count = static_cast<int>(std::min<size_t>(piece.iov_len - at, INT_MAX));
      int unused = 0;
      if (EVP_EncryptUpdate(context_.get(), nullptr, &unused, bytes + at, count) != 1) return false;
      at += static_cast<size_t>(count);
    }
    return true;
  }

  std::unique_ptr<EVP_CIPHER_CTX, Release<EVP_CIPHER_CTX_free>> context_;
  uint64_t count_ = 0;
};

}  // namespace

Result<std::unique_ptr<Seal>> Seal::make(const Secret::Key& key) {
  auto seal = std::make_unique<Gmac>();
  HVD_TRY(seal->open(key));
  return std::unique_ptr<Seal>(std::move(seal));
}

bool same_tag(const Seal::Tag& one, const Seal::Tag& other) {
  return CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace hvd::secure
