# A library is found if a small program (checks/*.f90) that uses what benchio needs of it compiles
# and links, and loads no other MPI than benchio's. A tool of the library's own (h5pfc, nf-config)
# is not asked: many sites have none, or one that speaks of another build.

# try_fortran(check includes libraries): whether checks/CHECK.f90 compiles and links, in TRY_WORKS;
# what the compiler said, in TRY_OUTPUT; the program, in TRY_PROGRAM.
function(try_fortran check includes libraries)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/checks)
  list(TRANSFORM includes PREPEND -I) # CMake leaves out /usr/include, where a compiler may not look
  try_compile(works ${folder} ${CMAKE_CURRENT_SOURCE_DIR}/cmake/checks/${check}.f90
    COMPILE_DEFINITIONS ${includes} LINK_LIBRARIES ${libraries} MPI::MPI_Fortran
    OUTPUT_VARIABLE output COPY_FILE ${folder}/${check} COPY_FILE_ERROR ignored)
  set(TRY_WORKS ${works} PARENT_SCOPE)
  set(TRY_OUTPUT "${output}" PARENT_SCOPE)
  set(TRY_PROGRAM ${folder}/${check} PARENT_SCOPE)
  unset(works CACHE)
endfunction()

# loaded_libraries(file pattern): the files of that name which a program or a library loads, in
# LOADED. None of what is linked statically.
function(loaded_libraries file pattern)
  execute_process(COMMAND ldd ${file} OUTPUT_VARIABLE output ERROR_QUIET)
  string(REGEX MATCHALL "/[^ \n]*/${pattern}\\.so[.0-9]*" names "${output}")
  set(files)
  foreach(name IN LISTS names)
    file(REAL_PATH ${name} real_name)
    list(APPEND files ${real_name})
  endforeach()
  list(REMOVE_DUPLICATES files)
  set(LOADED ${files} PARENT_SCOPE)
endfunction()

# problem_of_try(parallel): what is wrong with the library of the last try_fortran, in TRY_PROBLEM;
# empty if nothing is. PARALLEL is a library whose build without MPI links all the same.
function(problem_of_try parallel)
  set(mpi "libmpi(ch|_(amd|aocc|cray|gnu|intel|nvidia)[_0-9]*)?")
  set(problem)
  if(TRY_WORKS)
    loaded_libraries(${TRY_PROGRAM} "${mpi}")
    list(LENGTH LOADED count)
    if(count GREATER 1)
      list(JOIN LOADED " and " both)
      set(problem "it is for another MPI: a program would load ${both}")
    elseif(parallel)
      loaded_libraries(${TRY_PROGRAM} "${parallel}")
      foreach(file IN LISTS LOADED)
        loaded_libraries(${file} "${mpi}")
        if(NOT LOADED)
          set(problem "it is not parallel, for ${file} is not")
        endif()
      endforeach()
    endif()
  elseif(TRY_OUTPUT MATCHES "h5pset_fapl_mpio_f")
    set(problem "it is not parallel")
  elseif(TRY_OUTPUT MATCHES "h5dwrite_f")
    set(problem "it has no Fortran 2003 interface (HDF5 1.8: --enable-fortran2003)")
  elseif(TRY_OUTPUT MATCHES "\n([^\n]*([Ee]rror|undefined reference|cannot find)[^\n]*)")
    string(STRIP "${CMAKE_MATCH_1}" problem)
  else()
    set(problem "a program that uses it does not compile")
  endif()
  set(TRY_PROBLEM "${problem}" PARENT_SCOPE)
endfunction()

# find_files(place module names): the folder of the module in INCLUDES, and the libraries of these
# names in LIBRARIES; both empty if not all are there.
function(find_files place module names)
  set(arch ${CMAKE_LIBRARY_ARCHITECTURE})
  find_path(folder ${module}.mod NO_DEFAULT_PATH PATHS ${place} PATH_SUFFIXES
    include include/shared include/static mod mod/shared mod/static lib lib64
    lib/${arch}/fortran/gfortran-mod-15 lib/${arch}/fortran/gfortran-mod-16)
  set(found ${folder})
  foreach(name IN LISTS names)
    find_library(file ${name} NO_DEFAULT_PATH PATHS ${place} PATH_SUFFIXES lib lib64 lib/${arch})
    list(APPEND found ${file})
    unset(file CACHE)
  endforeach()
  unset(folder CACHE)
  if(found MATCHES NOTFOUND)
    set(found)
  endif()
  list(POP_FRONT found include)
  set(INCLUDES ${include} PARENT_SCOPE)
  set(LIBRARIES ${found} PARENT_SCOPE)
endfunction()

# find_fortran_library(NAME MODULE module LIBRARIES library... TOOL program [PARALLEL library])
#
# Looks in NAME_ROOT alone if that variable is set. Else in what the environment calls NAME_ROOT or
# NAME_DIR, or the same with the module's name in capitals (NETCDF_DIR); in the compiler, which on a
# Cray is a wrapper that knows every library; in CMAKE_PREFIX_PATH; beside TOOL in PATH; and in the
# usual folders. Sets NAME_FOUND and the target benchio_NAME, or NAME_PROBLEM. Every configuration
# looks anew.
function(find_fortran_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "MODULE;PARALLEL;TOOL" "LIBRARIES")
  if(DEFINED ${name}_ROOT)
    set(places ${${name}_ROOT})
  else()
    find_program(tool ${arg_TOOL})
    string(REGEX REPLACE "/bin/[^/]*$" "" prefix_of_tool "${tool}")
    unset(tool CACHE)
    string(REPLACE ":" ";" prefixes "$ENV{CMAKE_PREFIX_PATH}")
    string(TOUPPER ${arg_MODULE} module)
    set(debian /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/hdf5)
    set(places $ENV{${name}_ROOT} $ENV{${name}_DIR} $ENV{${module}_ROOT} $ENV{${module}_DIR}
      compiler ${CMAKE_PREFIX_PATH} ${prefixes} ${prefix_of_tool}
      ${debian}/openmpi ${debian}/mpich /usr/local /usr)
    list(FILTER places EXCLUDE REGEX NOTFOUND)
    list(REMOVE_DUPLICATES places)
  endif()

  set(found)
  set(problem)
  foreach(place IN LISTS places)
    if(place STREQUAL compiler)
      set(INCLUDES)
      set(LIBRARIES)
      try_fortran(${arg_MODULE} "" "")
      if(NOT TRY_WORKS) # it may only need their names
        set(LIBRARIES ${arg_LIBRARIES})
        try_fortran(${arg_MODULE} "" "${LIBRARIES}")
      endif()
      if(NOT TRY_WORKS)
        continue()
      endif()
    else()
      find_files(${place} ${arg_MODULE} "${arg_LIBRARIES}")
      if(NOT LIBRARIES)
        continue()
      endif()
      try_fortran(${arg_MODULE} "${INCLUDES}" "${LIBRARIES}")
    endif()
    problem_of_try("${arg_PARALLEL}")
    if(NOT TRY_PROBLEM)
      set(found ${place})
      break()
    elseif(NOT problem)
      set(problem "${name} in ${place}: ${TRY_PROBLEM}")
    endif()
  endforeach()

  set(${name}_FOUND ${found} PARENT_SCOPE)
  if(found)
    message(STATUS "Found ${name}: ${found}")
    add_library(benchio_${name} INTERFACE IMPORTED)
    list(TRANSFORM INCLUDES PREPEND -I)
    target_compile_options(benchio_${name} INTERFACE "$<$<COMPILE_LANGUAGE:Fortran>:${INCLUDES}>")
    target_link_libraries(benchio_${name} INTERFACE ${LIBRARIES})
  else()
    if(NOT problem)
      list(JOIN places ", " places)
      list(JOIN arg_LIBRARIES " and lib" names)
      set(problem "${name}: no ${arg_MODULE}.mod with lib${names} in ${places}")
    endif()
    message(STATUS "No ${problem}")
    set(${name}_PROBLEM "${problem}" PARENT_SCOPE)
  endif()
endfunction()
