# NetCDF-Fortran as the target NetCDF::NetCDF_Fortran, from NetCDF_Fortran_ROOT, from where
# nf-config points, or from the compiler wrapper itself (Cray).

find_program(NetCDF_Fortran_CONFIG nf-config)
if(NetCDF_Fortran_CONFIG)
  execute_process(COMMAND ${NetCDF_Fortran_CONFIG} --prefix
                  OUTPUT_VARIABLE nf_prefix OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
find_path(NetCDF_Fortran_INCLUDE_DIR netcdf.mod HINTS ${nf_prefix} PATH_SUFFIXES include)
find_library(NetCDF_Fortran_LIBRARY netcdff HINTS ${nf_prefix})

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NetCDF_Fortran
  REQUIRED_VARS NetCDF_Fortran_LIBRARY NetCDF_Fortran_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "give its prefix by NetCDF_Fortran_ROOT, or configure with -DBENCHIO_NETCDF=OFF")

if(NetCDF_Fortran_FOUND AND NOT TARGET NetCDF::NetCDF_Fortran)
  add_library(NetCDF::NetCDF_Fortran UNKNOWN IMPORTED)
  set_target_properties(NetCDF::NetCDF_Fortran PROPERTIES
    IMPORTED_LOCATION ${NetCDF_Fortran_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${NetCDF_Fortran_INCLUDE_DIR})
endif()
