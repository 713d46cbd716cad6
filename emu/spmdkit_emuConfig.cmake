# find_package(spmdkit_emu): target spmdkit::emu and function spmd_add_emulated_test. CUDA's headers are the user's own.
include(CMakeFindDependencyMacro)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/spmdkit_emu_targets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/spmdkit_emu.cmake)
find_path(SPMD_CUDA_INCLUDE_DIR cuda_runtime_api.h HINTS $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda /opt/cuda
    PATH_SUFFIXES include)
if(SPMD_CUDA_INCLUDE_DIR)
    target_include_directories(spmdkit::emu SYSTEM INTERFACE "${SPMD_CUDA_INCLUDE_DIR}")
else()
    set(spmdkit_emu_FOUND FALSE)
    string(CONCAT spmdkit_emu_NOT_FOUND_MESSAGE "CUDA's headers (cuda_runtime_api.h) were not found: install the CUDA "
        "toolkit, or set SPMD_CUDA_INCLUDE_DIR. Neither a GPU nor a driver is needed.")
endif()
