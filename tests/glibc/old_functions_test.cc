// What the packaged libraries have in place of newer functions of glibc's does what those do.

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace {

#ifdef DLFO_STRUCT_HAS_EH_DBASE

using FindObject = int(void*, dl_find_object*);

FindObject* Glibcs() { return reinterpret_cast<FindObject*>(dlsym(dlopen("libc.so.6", RTLD_LAZY), "_dl_find_object")); }

TEST(FindObjectTest, FindsWhatGlibcFinds) {
  ASSERT_NE(Glibcs(), nullptr);
  ASSERT_NE(Glibcs(), &_dl_find_object);
  int on_the_stack = 0;
  static int writable = 0;
  for (void* address :
       {reinterpret_cast<void*>(&Glibcs), dlsym(RTLD_DEFAULT, "malloc"), dlsym(RTLD_DEFAULT, "cos"),
        static_cast<void*>(&on_the_stack), static_cast<void*>(&writable), static_cast<void*>(nullptr)}) {
    dl_find_object found = {};
    dl_find_object expected = {};
    ASSERT_EQ(_dl_find_object(address, &found), Glibcs()(address, &expected)) << address;
    EXPECT_EQ(found.dlfo_eh_frame, expected.dlfo_eh_frame);
  }
}

#endif

TEST(FindObjectTest, ExceptionsAreCaught) {
  EXPECT_THROW(std::stoi("no number"), std::invalid_argument);
  std::string caught;
  std::thread([&caught] {
    try {
      throw std::runtime_error("in a thread");
    } catch (const std::exception& error) {
      caught = error.what();
    }
  }).join();
  EXPECT_EQ(caught, "in a thread");
}

TEST(StatTest, FillsInTheStructureOfToday) {
  const std::string path = testing::TempDir() + "/five_bytes";
  FILE* const file = fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(fputs("five.", file), 1);
  ASSERT_EQ(fflush(file), 0);
  struct stat by_path = {};
  struct stat by_file = {};
  ASSERT_EQ(stat(path.c_str(), &by_path), 0);
  ASSERT_EQ(fstat(fileno(file), &by_file), 0);
  fclose(file);
  EXPECT_EQ(by_path.st_size, 5);
  EXPECT_EQ(by_path.st_uid, getuid());
  EXPECT_TRUE(S_ISREG(by_path.st_mode));
  EXPECT_EQ(std::memcmp(&by_path, &by_file, sizeof(by_path)), 0);
  errno = 0;
  EXPECT_EQ(stat("/no/such/file", &by_path), -1);
  EXPECT_EQ(errno, ENOENT);
}

TEST(Log2Test, IsExactForPowersOfTwo) {
  for (int exponent = -60; exponent <= 60; ++exponent) {
    volatile const double power = std::ldexp(1.0, exponent);  // for the compiler not to know the answer
    EXPECT_EQ(std::log2(power), exponent);
  }
}

TEST(Arc4RandomTest, SeldomRepeats) {
  std::set<uint32_t> drawn;
  for (int i = 0; i < 100; ++i) drawn.insert(arc4random());
  EXPECT_GT(drawn.size(), 90U);
}

}  // namespace
