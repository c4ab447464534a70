// The core's readers and writers of protobuf.
#include <limits>
#include <random>

#include "nnhal/client/messages.h"
#include "nnhal/client/model.h"
#include "nnhal/protobuf.h"
#include "unit.h"

using namespace nnhal;

namespace {

std::string raw(std::initializer_list<int> bytes) { return {bytes.begin(), bytes.end()}; }

// The only number of a message of one field, or whether it is malformed.
std::string number_in(const std::string& message) {
  FieldReader reader(message);
  const bool has_field = reader.next();
  if (!reader.well_formed()) return "malformed";
  return has_field ? std::to_string(reader.number()) : "nothing";
}

}  // namespace

TEST(numbers_have_the_bytes_that_protobuf_gives_them) {
  CHECK(Message().number(1, 0).encoded() == raw({0x08, 0x00}));
  CHECK(Message().number(1, 127).encoded() == raw({0x08, 0x7f}));
  CHECK(Message().number(1, 128).encoded() == raw({0x08, 0x80, 0x01}));
  CHECK(Message().number(16, 300).encoded() == raw({0x80, 0x01, 0xac, 0x02}));
  CHECK(Message().integer(1, -1).encoded() == raw({0x08}) + std::string(9, '\xff') + raw({0x01}));
  CHECK(Message().fixed64(15, 1).encoded() == raw({0x79, 1, 0, 0, 0, 0, 0, 0, 0}));
  CHECK(Message().numbers(2, std::vector<int>{}).encoded().empty());
  CHECK(Message().numbers(2, std::vector<int>{3, 270}).encoded() == raw({0x12, 3, 3, 0x8e, 2}));
}

TEST(numbers_are_read_as_they_were_written) {
  for (const std::uint64_t value :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{127}, std::uint64_t{128}, std::uint64_t{1} << 32,
        std::uint64_t{1} << 63, std::numeric_limits<std::uint64_t>::max()})
    CHECK_SAME(number_in(Message().number(1, value).encoded()), std::to_string(value));
  FieldReader reader(std::string_view("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11));
  CHECK(reader.next() && reader.integer() == -1 && reader.integer32() == -1);
}

TEST(a_number_of_more_than_ten_bytes_is_malformed) {
  CHECK_SAME(number_in(raw({0x08}) + std::string(10, '\xff') + raw({0x01})), "malformed");
  // Bits beyond the 64th are passed over, as protobuf does.
  CHECK_SAME(number_in(raw({0x08}) + std::string(9, '\x80') + raw({0x7e})), "0");
  CHECK_SAME(number_in(raw({0x08}) + std::string(9, '\x80') + raw({0x01})), std::to_string(std::uint64_t{1} << 63));
}

TEST(a_message_that_ends_early_is_malformed) {
  const std::string whole = Message().number(1, 300).bytes(2, "four").real(3, 1.5f).fixed64(4, 7).encoded();
  std::size_t well_formed = 0;
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const std::string part = whole.substr(0, size);  // of its own, so that a read beyond it is found
    FieldReader reader(part);
    while (reader.next()) {
    }
    well_formed += reader.well_formed();
  }
  CHECK(well_formed == 5);  // at the end of each field, and at the beginning
}

TEST(fields_that_cannot_be_are_malformed) {
  CHECK_SAME(number_in(raw({0x00, 0x01})), "malformed");                          // field 0
  CHECK_SAME(number_in(raw({0x80, 0x80, 0x80, 0x80, 0x10, 0x01})), "malformed");  // a field above 2^29 - 1
  for (const int type : {3, 4, 6, 7}) CHECK_SAME(number_in(raw({0x08 | type, 0x01})), "malformed");
  CHECK_SAME(number_in(raw({0x0a}) + std::string(9, '\xff') + raw({0x01})), "malformed");  // 2^64 - 1 bytes
}

TEST(a_field_of_another_form_reads_as_nothing) {
  const std::string message = Message().bytes(1, "text").number(2, 5).encoded();
  FieldReader reader(message);
  CHECK(reader.next() && reader.number() == 0 && reader.fixed64() == 0 && reader.real() == 0);
  CHECK(reader.next() && reader.bytes().empty());
}

TEST(repeated_numbers_are_read_packed_or_not) {
  std::string message = Message().numbers(1, std::vector<int>{1, 300}).number(1, 7).encoded();
  std::vector<std::uint32_t> found;
  FieldReader reader(message);
  while (reader.next()) reader.append_to(found);
  CHECK((found == std::vector<std::uint32_t>{1, 300, 7}));
  message = Message().bytes(1, raw({0x01, 0x80})).encoded();
  FieldReader broken(message);
  while (broken.next()) broken.append_to(found);
  CHECK(!broken.well_formed());
}

TEST(an_answer_of_a_burst_has_a_status_or_a_result) {
  const auto words = [](const Message& message) {
    return client::decode_burst_answer(message.encoded(), "here").status().words();
  };
  CHECK_SAME(words(Message().number(1, 4).bytes(2, "no")), "INVALID_ARGUMENT: here: no");
  CHECK_SAME(words(Message().number(1, 99)), "status 99: here: ");
  CHECK_SAME(words(Message()), "GENERAL_FAILURE: here: an answer without result of an execution");
  CHECK_SAME(words(Message().bytes(3, raw({0x12, 0x05}))), "GENERAL_FAILURE: here: a malformed result of an execution");
  const Message shape = Message().numbers(1, std::vector<int>{2, 0}).number(2, 1);
  const Message timing = Message().integer(1, -1).integer(2, 70);
  const Message result = Message().number(1, 1).message(2, shape).message(3, timing);
  const auto found = client::decode_burst_answer(Message().message(3, result).encoded(), "here");
  CHECK(found.ok() && found->fits && found->shapes.size() == 1 && found->shapes[0].is_sufficient);
  CHECK(found.ok() && found->shapes[0].dimensions == (std::vector<std::uint32_t>{2, 0}));
  CHECK(found.ok() && found->timing.on_device_ns == -1 && found->timing.in_driver_ns == 70);
}

TEST(bytes_of_a_stranger_are_read_or_refused) {
  const Message shape = Message().numbers(1, std::vector<int>{2, 300}).number(2, 1);
  const Message report = Message().message(4, Message().bytes(1, "name").numbers(2, std::vector<int>{7}).number(3, 1));
  const Message timing = Message().integer(1, -1).integer(2, 5);
  const Message result = Message().number(1, 1).message(2, shape).message(3, timing);
  const std::string seeds[] = {Message().number(1, 3).bytes(2, "text").message(3, result).encoded(),
                               Message().number(1, 0).message(3, report).message(4, timing).encoded()};
  std::mt19937 random(29);  // the same in each run
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = seeds[random() % 2];
    for (unsigned changes = 1 + random() % 4; changes--;) bytes[random() % bytes.size()] = static_cast<char>(random());
    bytes.resize(random() % 3 ? bytes.size() : random() % bytes.size());
    bytes.shrink_to_fit();  // so that a read beyond it is found
    (void)client::decode_burst_answer(bytes, "here");
    (void)client::decode_model(bytes, "here");
    (void)client::decode_devices(bytes, "here");
    client::RunReport run;
    (void)client::decode_run_answer(bytes, "here", &run);
  }
}
