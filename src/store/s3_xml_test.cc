#include "store/s3_xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(S3Xml, ListingOfAws) {
  const auto listing = parse_listing(R"(<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><Prefix/>
<KeyCount>3</KeyCount><MaxKeys>3</MaxKeys><IsTruncated>true</IsTruncated>
<NextContinuationToken>tok/en=</NextContinuationToken>
<Contents><Key>a+b%2Bc</Key><LastModified>2009-10-12T17:50:30.123Z</LastModified>
<ETag>&quot;fba9dede5f27731c9771645a39863328&quot;</ETag><Size>434234</Size></Contents>
<CommonPrefixes><Prefix>p%C3%A4/</Prefix></CommonPrefixes></ListBucketResult>)");
  ASSERT_TRUE(listing.ok()) << listing.error().to_string();
  ASSERT_EQ(listing->objects.size(), 1U);
  EXPECT_EQ(listing->objects[0].key, "a b+c");
  EXPECT_EQ(listing->objects[0].size, 434234U);
  EXPECT_EQ(listing->objects[0].etag, "fba9dede5f27731c9771645a39863328");
  EXPECT_EQ(listing->objects[0].mtime_ns, 1255369830123000000);
  EXPECT_THAT(listing->folders, ElementsAre("p\xC3\xA4/"));
  EXPECT_TRUE(listing->truncated);
  EXPECT_EQ(listing->continuation, "tok/en=");
}

TEST(S3Xml, ListingsThatAreNone) {
  for (const char* xml :
       {"", "not xml", "<html></html>", "<ListBucketResult><Contents><Key>a</Key></Contents>",
        "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>"}) {
    const auto listing = parse_listing(xml);
    ASSERT_FALSE(listing.ok()) << xml;
    EXPECT_EQ(listing.error().code, ErrorCode::kCorrupt);
    EXPECT_TRUE(listing.error().retryable);
  }
}

TEST(S3Xml, Errors) {
  const auto error = parse_error(
      "<Error><Code>PermanentRedirect</Code><Message>elsewhere</Message><Region>eu</Region></"
      "Error>");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code, "PermanentRedirect");
  EXPECT_EQ(error->message, "elsewhere");
  EXPECT_EQ(error->region, "eu");
  EXPECT_FALSE(parse_error("<CopyObjectResult/>").has_value());
  EXPECT_FALSE(parse_error("").has_value());
}

TEST(S3Xml, AnswersToWrites) {
  EXPECT_EQ(*parse_upload_id("<InitiateMultipartUploadResult><UploadId>2~x</UploadId>"
                             "</InitiateMultipartUploadResult>"),
            "2~x");
  EXPECT_FALSE(parse_upload_id("<InitiateMultipartUploadResult/>").ok());
  EXPECT_EQ(parse_written("<CopyObjectResult><ETag>\"ab\"</ETag></CopyObjectResult>")->etag, "ab");
  EXPECT_EQ(
      parse_written("<CompleteMultipartUploadResult><ETag/></CompleteMultipartUploadResult>")->etag,
      "");
  EXPECT_FALSE(parse_written("<Error/>").ok());
  const auto failed = parse_delete_result(
      "<DeleteResult><Error><Key>a&amp;b</Key><Code>AccessDenied</Code></Error></DeleteResult>");
  ASSERT_EQ(failed->size(), 1U);
  EXPECT_EQ(failed->front().key, "a&b");
  EXPECT_EQ(failed->front().error.code, "AccessDenied");
  const auto blank =
      parse_delete_result("<DeleteResult><Error><Key> </Key></Error></DeleteResult>");
  EXPECT_EQ(blank->front().key, " ");
}

TEST(S3Xml, RequestsAreEscaped) {
  const std::vector<std::string> keys = {"a<b>&c", "line\r\n"};
  EXPECT_THAT(make_delete_request(keys), HasSubstr("<Key>a&lt;b&gt;&amp;c</Key></Object><Object>"
                                                   "<Key>line&#13;&#10;</Key>"));
  const std::vector<std::string> etags = {"e1", "e2"};
  EXPECT_THAT(make_complete_request(etags),
              HasSubstr("<Part><PartNumber>2</PartNumber><ETag>\"e2\"</ETag></Part>"));
}

TEST(S3Xml, WhatXmlCannotCarry) {
  for (const char* text : {"plain", "tab\t", "\xC3\xA4", "\xF4\x8F\xBF\xBD", "\xED\x9F\xBF"}) {
    EXPECT_TRUE(is_xml_text(text)) << text;
  }
  for (const char* text : {"\x01", "\xFF", "\xC3", "\xC0\x80", "\xED\xA0\x80", "\xEF\xBF\xBF",
                           "\xE0\x80\x80", "\xF4\x90\x80\x80"}) {
    EXPECT_FALSE(is_xml_text(text)) << text;
  }
}

TEST(S3Xml, Times) {
  EXPECT_EQ(parse_iso_time_ns("1970-01-01T00:00:01Z"), 1'000'000'000);
  EXPECT_EQ(parse_iso_time_ns("1970-01-01T00:00:00.5Z"), 500'000'000);
  for (const char* text : {"", "1970-01-01", "1970-01-01 00:00:01Z", "9999-01-01T00:00:00Z"}) {
    EXPECT_EQ(parse_iso_time_ns(text), 0) << text;
  }
}

TEST(S3Xml, ListedKeysAreDecodedOnce) {
  EXPECT_EQ(decode_listed_key("a%2520b%2Bc+d"), "a%20b+c d");
  EXPECT_EQ(decode_listed_key("100%"), "100%");
  EXPECT_EQ(decode_listed_key("%4"), "%4");
  EXPECT_EQ(decode_listed_key("%zz%41"), "%zzA");
}

}  // namespace
}  // namespace penstock::store
