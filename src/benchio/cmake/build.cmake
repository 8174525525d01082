# Writes OUTPUT: which commit the sources in SOURCE are of, as release NUMBER. It is run at every
# build, and leaves the file alone where that has not changed.
function(git output)
  # Whoever builds has perhaps not made the clone, or is in a hook of another repository.
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env --unset=GIT_DIR --unset=GIT_WORK_TREE --unset=GIT_INDEX_FILE
            git -c safe.directory=* --no-optional-locks ${ARGN} -- .
    WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE text ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(${output} "${text}" PARENT_SCOPE)
endfunction()

git(commit log -1 --format=%h --abbrev=10)
git(changed status --porcelain --untracked-files=no)
set(BUILD "")
if(commit)
  set(BUILD "+${commit}")
  if(changed)
    string(APPEND BUILD ".dirty")
  endif()
endif()
configure_file(${SOURCE}/lib/build.f90.in ${OUTPUT} @ONLY)
