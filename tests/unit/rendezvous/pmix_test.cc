// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/pmix.h"

#include <gtest/gtest.h>

#include "rendezvous/pmix_abi.h"
#include "unit/collectives/sanitizers.h"
#if __has_include(<pmix.h>)
#include <pmix.h>
#define HAVE_PMIX_HEADER 1
#else
#define HAVE_PMIX_HEADER 0
#endif

namespace hvd::rendezvous {
namespace {

TEST(Pmix, WithoutALauncherThereIsNoSession) {
  if (test::kSanitized) GTEST_SKIP() << "libpmix forgets a few bytes of its own when it is loaded";
  const Result<PmixSession*> session =
      PmixSession::open([](const std::string&) { return std::nullopt; });
  EXPECT_EQ(session.status().code(), Code::kUnsupported);
  EXPECT_EQ(session.status().message().substr(0, 6), "PMIx: ");
}

TEST(Pmix, TheDeclarationsAreThoseOfItsHeader) {
#if HAVE_PMIX_HEADER
  EXPECT_EQ(sizeof(pmix::Proc), sizeof(pmix_proc_t));
  EXPECT_EQ(offsetof(pmix::Proc, rank), offsetof(pmix_proc_t, rank));
  EXPECT_EQ(sizeof(pmix::Value), sizeof(pmix_value_t));
  EXPECT_EQ(offsetof(pmix::Value, data), offsetof(pmix_value_t, data));
  EXPECT_EQ(pmix::kSuccess, PMIX_SUCCESS);
  EXPECT_EQ(pmix::kNotFound, PMIX_ERR_NOT_FOUND);
  EXPECT_EQ(pmix::kString, PMIX_STRING);
  EXPECT_EQ(pmix::kGlobal, PMIX_GLOBAL);
  static_assert(sizeof(pmix_status_t) == sizeof(int));
  static_assert(sizeof(pmix_data_type_t) == sizeof(uint16_t));
  static_assert(sizeof(pmix_scope_t) == sizeof(uint8_t));
  static_assert(sizeof(pmix_rank_t) == sizeof(uint32_t));
  static_assert(std::is_same_v<decltype(&PMIx_Commit), pmix::Commit*>);
  static_assert(std::is_same_v<decltype(&PMIx_Error_string), pmix::ErrorString*>);
#else
  GTEST_SKIP() << "pmix.h is not installed (libpmix-dev)";
#endif
}

}  // namespace
}  // namespace hvd::rendezvous
