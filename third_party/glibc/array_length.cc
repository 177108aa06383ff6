// The C++ library of the oldest systems has no such function: it is of GCC 11. Containers call it for more elements
// than there are addresses, where the compiler cannot tell that there never are so many; older ones report that
// otherwise, by the same base class.
//
// No header: the C++ library's own declares it to be seen from outside.

// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl58-cpp): the names are the C++ library's
namespace std {

[[noreturn]] void __throw_bad_alloc();
[[noreturn, gnu::visibility("hidden")]] void __throw_bad_array_new_length();
void __throw_bad_array_new_length() { __throw_bad_alloc(); }

}  // namespace std
// NOLINTEND(bugprone-reserved-identifier,cert-dcl58-cpp)
