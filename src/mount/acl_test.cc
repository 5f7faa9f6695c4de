#include "mount/acl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/result_matchers.h"

namespace penstock::mount {
namespace {

constexpr uint32_t kNoId = UINT32_MAX;

Acl minimal() {
  return {{kAclOwner, 6, kNoId}, {kAclGroupOwner, 4, kNoId}, {kAclOther, 0, kNoId}};
}

Acl named() {
  return {{kAclOwner, 7, kNoId},
          {kAclUser, 6, 1000},
          {kAclGroupOwner, 5, kNoId},
          {kAclMask, 7, kNoId},
          {kAclOther, 4, kNoId}};
}

TEST(Acl, ComesBackAsItWasWritten) {
  for (const Acl& acl : {minimal(), named()}) {
    const Result<Acl> parsed = parse_acl(format_acl(acl));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, acl);
  }
}

TEST(Acl, WhatIsNoListIsRefused) {
  EXPECT_FALSE(parse_acl("").ok());
  EXPECT_FALSE(parse_acl(std::string("\1\0\0\0", 4)).ok());
  EXPECT_FALSE(parse_acl(std::string("\2\0\0\0", 4)).ok()) << "nobody in it";
  EXPECT_FALSE(parse_acl(format_acl(named()) + "x").ok());
  Acl twice = minimal();
  twice.push_back({kAclOther, 7, kNoId});
  EXPECT_FALSE(parse_acl(format_acl(twice)).ok());
  Acl without_mask = minimal();
  without_mask.push_back({kAclUser, 7, 5});
  EXPECT_FALSE(parse_acl(format_acl(without_mask)).ok());
  Acl strange = minimal();
  strange[0].permissions = 8;
  EXPECT_FALSE(parse_acl(format_acl(strange)).ok());
}

TEST(Acl, TheMaskIsTheGroupOfTheMode) {
  EXPECT_EQ(mode_of(named(), S_IFREG | 04000), S_IFREG | 04774U);
  EXPECT_EQ(mode_of(minimal(), S_IFREG), S_IFREG | 0640U);
}

TEST(Acl, AChmodSetsTheMaskAndLeavesThoseNamed) {
  const Acl acl = with_mode(named(), 0640);
  EXPECT_EQ(mode_of(acl, 0), 0640U);
  EXPECT_EQ(acl[1].permissions, 6);
  EXPECT_EQ(acl[2].permissions, 5);
}

TEST(Acl, WhatIsNewGetsNoMoreThanWasAskedFor) {
  const Inherited rich = inherit(named(), S_IFREG | 0666);
  EXPECT_EQ(rich.mode, S_IFREG | 0664U);
  ASSERT_TRUE(rich.access.has_value());
  EXPECT_EQ(mode_of(*rich.access, 0), 0664U);
  const Inherited plain = inherit(minimal(), S_IFREG | 0666);
  EXPECT_EQ(plain.mode, S_IFREG | 0640U);
  EXPECT_FALSE(plain.access.has_value());
}

}  // namespace
}  // namespace penstock::mount
