#include "mount/capability_notes.h"

#include <gtest/gtest.h>

namespace penstock::mount {
namespace {

TEST(CapabilityNotes, WhatWasSeenBeforeAChangeDoesNotCount) {
  CapabilityNotes notes;
  const uint64_t before = notes.moment();
  notes.note_none(7, before);
  EXPECT_TRUE(notes.has_none(7));
  notes.forget(7);
  EXPECT_FALSE(notes.has_none(7));
  notes.note_none(7, before);
  EXPECT_FALSE(notes.has_none(7));
  notes.note_none(7, notes.moment());
  EXPECT_TRUE(notes.has_none(7));
}

}  // namespace
}  // namespace penstock::mount
