// SPDX-License-Identifier: Apache-2.0
#include "secure/protection.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"

namespace hvd::secure {
namespace {

TEST(Protection, WithoutASecret) {
  const Result<Protection> protection = read_protection(Options());
  ASSERT_TRUE(protection.ok());
  EXPECT_EQ(nullptr, protection.value().keyring);
  EXPECT_EQ(Level::kAuth, protection.value().level);
}

TEST(Protection, FromADescriptorAtEachLevel) {
  const Fd memory(::memfd_create("secret", MFD_CLOEXEC));
  const std::string text(64, 'c');
  ASSERT_EQ(64, ::write(memory.get(), text.data(), text.size()));
  for (const auto& [name, level] :
       {std::pair("auth", Level::kAuth), {"encrypt", Level::kEncrypt}, {"none", Level::kNone}}) {
    Options options;
    options.secret_fd = memory.get();
    options.security = name;
    const Result<Protection> protection = read_protection(options);
    ASSERT_TRUE(protection.ok()) << protection.status().message();
    EXPECT_EQ(text, protection.value().keyring->secret().text());
    EXPECT_EQ(level, protection.value().level);
  }
}

TEST(Protection, TwoSourcesOrNoneThatCanBeReadAreErrors) {
  Options options;
  options.secret_fd = 3;
  options.secret_file = "/a/b";
  EXPECT_EQ("init: secret_fd is 3 and secret_file is \"/a/b\"; allowed: one of them",
            read_protection(options).status().message());
  options.secret_fd = -1;
  EXPECT_EQ("init: secret file /a/b: No such file or directory (2)",
            read_protection(options).status().message());
}

TEST(Protection, ChecksumsNeedKeys) {
  Options options;
  options.data_mac = true;
  EXPECT_TRUE(read_protection(options).ok());
  options.security = "none";
  EXPECT_EQ("init: data_mac is 1 and security is none, which knows no keys; allowed: auth, encrypt",
            read_protection(options).status().message());
}

}  // namespace
}  // namespace hvd::secure
