# PnetCDF with its Fortran module, as the target PnetCDF::PnetCDF, from PnetCDF_ROOT, from where
# pnetcdf-config points, or from where Debian has it. One whose module this compiler cannot read, or
# that is for another MPI, is none.

include(CheckFortranSourceCompiles)
include(FindPackageHandleStandardArgs)

find_program(PnetCDF_CONFIG pnetcdf-config)
if(PnetCDF_CONFIG)
  execute_process(COMMAND ${PnetCDF_CONFIG} --prefix
                  OUTPUT_VARIABLE pnetcdf_prefix OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
find_path(PnetCDF_INCLUDE_DIR pnetcdf.mod
          HINTS ${pnetcdf_prefix} /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/fortran
          PATH_SUFFIXES include gfortran-mod-15 gfortran-mod-16)
find_library(PnetCDF_LIBRARY pnetcdf HINTS ${pnetcdf_prefix})

if(PnetCDF_INCLUDE_DIR AND PnetCDF_LIBRARY)
  set(CMAKE_REQUIRED_INCLUDES ${PnetCDF_INCLUDE_DIR})
  set(CMAKE_REQUIRED_LIBRARIES ${PnetCDF_LIBRARY} MPI::MPI_Fortran)
  check_fortran_source_compiles("program main
      use pnetcdf, only: nf90mpi_inq_libvers
      print *, nf90mpi_inq_libvers()
    end program main" PnetCDF_LINKS SRC_EXT f90)
  unset(CMAKE_REQUIRED_INCLUDES)
  unset(CMAKE_REQUIRED_LIBRARIES)
endif()

find_package_handle_standard_args(PnetCDF
  REQUIRED_VARS PnetCDF_LIBRARY PnetCDF_INCLUDE_DIR PnetCDF_LINKS
  REASON_FAILURE_MESSAGE "give its prefix by PnetCDF_ROOT, or leave it out by -DBENCHIO_PNETCDF=OFF")

if(PnetCDF_FOUND AND NOT TARGET PnetCDF::PnetCDF)
  add_library(PnetCDF::PnetCDF UNKNOWN IMPORTED)
  set_target_properties(PnetCDF::PnetCDF PROPERTIES
    IMPORTED_LOCATION ${PnetCDF_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${PnetCDF_INCLUDE_DIR})
endif()
