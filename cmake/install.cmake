# Headers keep the tree's folders under include/spmdkit, so that their own includes work there. Listed are those
# that do not begin with "/* Private" (lint compares).
set(public_headers
    spmd/status.h spmd/dtype.h spmd/mesh.h spmd/spec.h spmd/tensor.h spmd/array.h spmd/shard_map.h spmd/custom.h
    spmd/grad.h spmd/jit.h spmd/auto_map.h spmd/profile.h spmd/cuda.h spmd/spmdkit.h spmd/testing.h
    collectives/collectives.h
    kernels/kernels.h
    models/checkpoints.h models/data.h models/mlp.h models/optim.h models/safetensors.h models/train.h)
foreach(header IN LISTS public_headers)
    get_filename_component(folder ${header} DIRECTORY)
    install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/spmdkit/${folder})
endforeach()

if(SPMD_CUDA STREQUAL "ON")
    install(FILES spmd/cuda.cuh DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/spmdkit/spmd) # else with the emulated CUDA
endif()

install(TARGETS spmdkit spmdkit_static EXPORT spmdkit)
if(TARGET spmdkit_testing)
    install(TARGETS spmdkit_testing EXPORT spmdkit)
endif()
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/spmdkit)
install(EXPORT spmdkit NAMESPACE spmdkit:: FILE spmdkitConfig.cmake DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/spmdkitConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/spmdkitConfigVersion.cmake DESTINATION ${package_folder})

list(TRANSFORM SPMD_INSTALL_LIBRARIES PREPEND -l OUTPUT_VARIABLE SPMD_PKG_CONFIG_LIBRARIES)
list(JOIN SPMD_PKG_CONFIG_LIBRARIES " " SPMD_PKG_CONFIG_LIBRARIES)
# From where the file lies, since cmake --install --prefix may put it anywhere.
file(RELATIVE_PATH SPMD_PKG_CONFIG_UP ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/spmdkit.pc.in spmdkit.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/spmdkit.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(TARGET spmd)
    install(FILES docs/spmd.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
