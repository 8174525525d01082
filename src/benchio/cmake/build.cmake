# Writes OUTPUT: which commit the sources in SOURCE are of, as release NUMBER; `build_tellers` are the
# files that tell when that may have changed. OUTPUT is left alone where it has not.
function(git output)
  # Whoever builds has perhaps not made the clone, or is in a hook of another repository.
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env --unset=GIT_DIR --unset=GIT_WORK_TREE --unset=GIT_INDEX_FILE
            git -c safe.directory=* --no-optional-locks ${ARGN}
    WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE text ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(${output} "${text}" PARENT_SCOPE)
endfunction()

git(commit log -1 --format=%h --abbrev=10 -- .)
git(changed status --porcelain --untracked-files=no -- .)
set(BUILD "")
set(files)
if(commit)
  set(BUILD "+${commit}")
  if(changed)
    string(APPEND BUILD ".dirty")
  endif()
  git(sources ls-files)
  git(moved rev-parse --git-path logs/HEAD)
  get_filename_component(log "${moved}" ABSOLUTE BASE_DIR ${SOURCE})
  if(NOT EXISTS "${log}") # switched off: the index changes more often
    git(moved rev-parse --git-path index)
  endif()
  string(REPLACE "\n" ";" files "${sources}\n${moved}")
endif()
configure_file(${SOURCE}/lib/posix/build.c.in ${OUTPUT} @ONLY)

set(build_tellers)
foreach(file IN LISTS files)
  get_filename_component(path "${file}" ABSOLUTE BASE_DIR ${SOURCE})
  list(APPEND build_tellers "${path}")
endforeach()
