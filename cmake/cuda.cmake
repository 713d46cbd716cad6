# Backend cuda. Sets SPMD_CUDA_LIBRARIES; adds to SPMD_DEFINITIONS and to the lists of what is linked.
#   OFF   no CUDA
#   ON    .cu files by nvcc for the GPUs in CMAKE_CUDA_ARCHITECTURES; a GPU is not needed to build
#   EMU   the same .cu files as C++17, linked with the emulated CUDA of emu/, which needs CUDA's headers only
set(SPMD_CUDA OFF CACHE STRING "backend cuda: OFF, ON (nvcc) or EMU (emulated, checked; no GPU)")
set_property(CACHE SPMD_CUDA PROPERTY STRINGS OFF ON EMU)
if(NOT SPMD_CUDA MATCHES "^(OFF|ON|EMU)$")
    message(FATAL_ERROR "SPMD_CUDA is '${SPMD_CUDA}': it may be OFF, ON or EMU.")
endif()
if(SPMD_CUDA STREQUAL "OFF")
    return()
endif()

set(cuda_folders $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda /opt/cuda)
if(SPMD_CUDA STREQUAL "ON")
    find_program(SPMD_NVCC nvcc HINTS ${cuda_folders} PATH_SUFFIXES bin)
    if(NOT SPMD_NVCC)
        message(FATAL_ERROR "nvcc was not found. Install the CUDA toolkit (13 or newer), say where it is "
            "(CUDA_HOME=...), or configure with -DSPMD_CUDA=EMU or -DSPMD_CUDA=OFF.")
    endif()
    set(CMAKE_CUDA_COMPILER "${SPMD_NVCC}" CACHE FILEPATH "nvcc")
    if(NOT CMAKE_CUDA_ARCHITECTURES)
        set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100 CACHE STRING "GPUs to compile for")
    endif()
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 17)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    find_package(CUDAToolkit REQUIRED)
    find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
    if(NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
        message(FATAL_ERROR "NCCL (nccl.h, libnccl) was not found. Install it (Debian, Ubuntu: libnccl-dev of NVIDIA's "
            "repository), or set NCCL_INCLUDE_DIR and NCCL_LIBRARY.")
    endif()
    add_library(spmd_cuda INTERFACE)
    target_include_directories(spmd_cuda SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS} ${NCCL_INCLUDE_DIR})
    target_link_libraries(spmd_cuda INTERFACE CUDA::cudart CUDA::cublasLt ${NCCL_LIBRARY} stdc++ ${CMAKE_DL_LIBS})
    list(APPEND SPMD_INSTALL_LIBRARIES cudart cublasLt nccl stdc++ ${CMAKE_DL_LIBS})
else()
    enable_language(CXX)
    find_path(SPMD_CUDA_INCLUDE_DIR cuda_runtime_api.h HINTS ${cuda_folders} PATH_SUFFIXES include)
    find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${SPMD_CUDA_INCLUDE_DIR})
    if(NOT SPMD_CUDA_INCLUDE_DIR OR NOT NCCL_INCLUDE_DIR)
        message(FATAL_ERROR "CUDA's headers (cuda_runtime_api.h, cublasLt.h, nccl.h) were not found. The emulated CUDA "
            "needs no GPU and no driver, but these: install the CUDA toolkit, or set SPMD_CUDA_INCLUDE_DIR and "
            "NCCL_INCLUDE_DIR, or configure with -DSPMD_CUDA=OFF.")
    endif()
    add_subdirectory(emu)
    include(${PROJECT_SOURCE_DIR}/emu/spmdkit_emu.cmake) # SPMD_EMU_COMPILE_OPTIONS
    add_library(spmd_cuda INTERFACE)
    target_include_directories(spmd_cuda SYSTEM INTERFACE ${SPMD_CUDA_INCLUDE_DIR} ${NCCL_INCLUDE_DIR})
    target_compile_definitions(spmd_cuda INTERFACE SPMD_EMU)
    target_link_libraries(spmd_cuda INTERFACE spmd_emu stdc++ ${CMAKE_DL_LIBS})
    target_link_options(spmd_cuda INTERFACE -no-pie) # reports name source lines by address
    list(APPEND SPMD_INSTALL_LIBRARIES spmd_emu stdc++ ${CMAKE_DL_LIBS})
    set(CMAKE_CXX_STANDARD 17)
    set(CMAKE_CXX_STANDARD_REQUIRED ON)
    set(CMAKE_CXX_EXTENSIONS OFF)
endif()
list(APPEND SPMD_DEFINITIONS SPMD_HAVE_CUDA=1)
list(APPEND SPMD_BUILD_LIBRARIES spmd_cuda)

# spmd_cuda_sources(OUT): the .cu files of the tree, ready to be sources of a target.
function(spmd_cuda_sources out)
    file(GLOB cu_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/spmd/cuda/*.cu ${PROJECT_SOURCE_DIR}/kernels/*.cu
        ${PROJECT_SOURCE_DIR}/kernels/*/*.cu ${PROJECT_SOURCE_DIR}/collectives/*.cu
        ${PROJECT_SOURCE_DIR}/collectives/*/*.cu)
    file(GLOB c_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/spmd/cuda/*.c ${PROJECT_SOURCE_DIR}/collectives/p2p/*.c
        ${PROJECT_SOURCE_DIR}/collectives/nccl/*.c)
    if(SPMD_CUDA STREQUAL "EMU")
        set_source_files_properties(${cu_files} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "${SPMD_EMU_COMPILE_OPTIONS}")
    endif()
    set(${out} ${cu_files} ${c_files} PARENT_SCOPE)
endfunction()
