// _dl_find_object, which glibc has since 2.35: where the unwinder of GCC 12, which is linked into some of our
// libraries, asks for the tables of the code that an exception passes. It has no other way to ask.

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdint>

// Older glibc's do not declare it, and the unwinders on such systems ask otherwise.
#ifdef DLFO_STRUCT_HAS_EH_DBASE

namespace {

struct Search {
  uintptr_t address;
  dl_find_object* found;
};

// Whether this is the object with the address; then, what is asked for is filled in.
int IsObject(dl_phdr_info* object, size_t, void* searched) {
  const auto& search = *static_cast<Search*>(searched);
  const ElfW(Phdr)* tables = nullptr;
  bool has_address = false;
  uintptr_t first = UINTPTR_MAX;
  uintptr_t end = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    const uintptr_t start = object->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_GNU_EH_FRAME) tables = &segment;
    if (segment.p_type != PT_LOAD) continue;
    has_address = has_address || (search.address >= start && search.address - start < segment.p_memsz);
    first = std::min(first, start);
    end = std::max(end, start + segment.p_memsz);
  }
  if (!has_address) return 0;
  search.found->dlfo_flags = 0;
  search.found->dlfo_map_start = reinterpret_cast<void*>(first);
  search.found->dlfo_map_end = reinterpret_cast<void*>(end);
  search.found->dlfo_link_map = nullptr;
#if DLFO_STRUCT_HAS_EH_DBASE
  search.found->dlfo_eh_dbase = nullptr;  // for architectures whose tables are relative to data
#endif
  search.found->dlfo_eh_frame =
      tables == nullptr ? nullptr : reinterpret_cast<void*>(object->dlpi_addr + tables->p_vaddr);
  return 1;
}

}  // namespace

extern "C" [[gnu::visibility("hidden")]] int _dl_find_object(void* address, dl_find_object* found) {
  Search search = {reinterpret_cast<uintptr_t>(address), found};
  // As glibc's own: without tables it is not found.
  if (dl_iterate_phdr(&IsObject, &search) == 0 || found->dlfo_eh_frame == nullptr) return -1;
  return 0;
}

#endif
