# frugal_alloc for C++ programs on LibTorch:
#
#   find_package(frugal_alloc REQUIRED)
#   target_link_libraries(train PRIVATE frugal_alloc::torch)
#
# frugal_alloc::torch brings the header frugal_alloc/torch.h, the library that fits the LibTorch found, and LibTorch:
# where find_package(Torch) came before, that one's targets; else the folder below CMAKE_PREFIX_PATH, in
# frugal_alloc_TORCH, or beside this package in the same site-packages. LibTorch's own package needs a CUDA toolkit with
# nvcc; this one does not, as a program needs none to link LibTorch.

get_filename_component(_frugal_package "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

# Ends this file with a reason that find_package shows.
macro(_frugal_refuse)
  string(CONCAT frugal_alloc_NOT_FOUND_MESSAGE ${ARGN})
  set(frugal_alloc_FOUND FALSE)
  return()
endmacro()

if(TARGET frugal_alloc::torch)
  return()
endif()

# --- LibTorch

if(TARGET torch AND TORCH_INSTALL_PREFIX)
  set(_frugal_torch "${TORCH_INSTALL_PREFIX}")
else()
  find_path(
    frugal_alloc_TORCH lib/libtorch.so
    HINTS ${CMAKE_PREFIX_PATH} ENV CMAKE_PREFIX_PATH "${_frugal_package}/../torch"
    # torch.utils.cmake_prefix_path is share/cmake below the folder meant.
    PATH_SUFFIXES ../..
    DOC "LibTorch's folder: it has include/ and lib/")
  if(NOT frugal_alloc_TORCH)
    _frugal_refuse("LibTorch was not found: put its folder, or what `python -c \"import torch; "
                   "print(torch.utils.cmake_prefix_path)\"` prints, into CMAKE_PREFIX_PATH")
  endif()
  get_filename_component(_frugal_torch "${frugal_alloc_TORCH}" ABSOLUTE)
endif()

if(NOT EXISTS "${_frugal_torch}/lib/libc10_cuda.so")
  _frugal_refuse("LibTorch in ${_frugal_torch} is built for the CPU only; frugal_alloc needs a CUDA build of it")
endif()
set(_frugal_line "")
set(_frugal_file "${_frugal_torch}/share/cmake/Torch/TorchConfigVersion.cmake")
if(EXISTS "${_frugal_file}")
  file(STRINGS "${_frugal_file}" _frugal_line REGEX "PACKAGE_VERSION \"[0-9]")
endif()
if(NOT _frugal_line MATCHES "\"(([0-9]+)\\.([0-9]+)[^\"]*)\"")
  _frugal_refuse("LibTorch in ${_frugal_torch} does not say its version in ${_frugal_file}")
endif()
set(_frugal_version "${CMAKE_MATCH_1}")
set(_frugal_library "${_frugal_package}/_lib/frugal_alloc_torch${CMAKE_MATCH_2}${CMAKE_MATCH_3}.so")

# --- The library for it

if(NOT EXISTS "${_frugal_library}")
  file(GLOB _frugal_built RELATIVE "${_frugal_package}/_lib" "${_frugal_package}/_lib/frugal_alloc_torch*.so")
  list(TRANSFORM _frugal_built REPLACE "^frugal_alloc_torch([0-9])([0-9]+)\\.so$" "\\1.\\2")
  list(SORT _frugal_built COMPARE NATURAL)
  list(JOIN _frugal_built ", " _frugal_built)
  _frugal_refuse("frugal_alloc has no library for LibTorch ${_frugal_version} in ${_frugal_torch} (built for: "
                 "${_frugal_built}): use one of these, or a frugal_alloc that knows this one")
endif()

# In a checkout the header lies beside the package.
set(_frugal_include "${_frugal_package}/include")
if(NOT EXISTS "${_frugal_include}")
  get_filename_component(_frugal_include "${_frugal_package}/../include" ABSOLUTE)
endif()

# --- Targets

add_library(frugal_alloc::library SHARED IMPORTED)
set_target_properties(
  frugal_alloc::library PROPERTIES IMPORTED_LOCATION "${_frugal_library}"
                                   INTERFACE_INCLUDE_DIRECTORIES "${_frugal_include}")

if(TARGET torch AND TORCH_INSTALL_PREFIX)
  set(_frugal_torch_libraries ${TORCH_LIBRARIES})
else()
  foreach(_frugal_name torch torch_cpu torch_cuda c10 c10_cuda)
    add_library(frugal_alloc::lib${_frugal_name} SHARED IMPORTED)
    set_target_properties(frugal_alloc::lib${_frugal_name}
                          PROPERTIES IMPORTED_LOCATION "${_frugal_torch}/lib/lib${_frugal_name}.so")
    list(APPEND _frugal_torch_libraries frugal_alloc::lib${_frugal_name})
  endforeach()
  set_target_properties(
    frugal_alloc::libtorch
    PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_frugal_torch}/include;${_frugal_torch}/include/torch/csrc/api/include"
               INTERFACE_COMPILE_FEATURES cxx_std_17)
  # Their headers need C++20 from 2.14 on.
  if(_frugal_version VERSION_GREATER_EQUAL 2.14)
    set_target_properties(frugal_alloc::libtorch PROPERTIES INTERFACE_COMPILE_FEATURES cxx_std_20)
  endif()
endif()

add_library(frugal_alloc::torch INTERFACE IMPORTED)
set_target_properties(
  frugal_alloc::torch
  PROPERTIES INTERFACE_LINK_LIBRARIES "frugal_alloc::library;${_frugal_torch_libraries}"
             # LibTorch's CUDA part registers itself when it is loaded, so it is linked though a program names
             # nothing in it; and what it and frugal_alloc need of CUDA is found when the program starts.
             INTERFACE_LINK_OPTIONS "-Wl,--no-as-needed,--allow-shlib-undefined")
