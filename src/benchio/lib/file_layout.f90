!> How a file is spread over the storage targets of a filesystem: what is asked for, what is seen.
!>
!> A layout is asked for on a directory, whose files inherit it, and observed on a file. How both
!> are done is the filesystem's: each extends layout_keeper, once. What was asked for must be
!> observed; what an interface repeats (echoes) is no evidence.
module benchio_file_layout
    use, intrinsic :: iso_fortran_env, only: int64
    use benchio_failure, only: exit_io, failure
    use benchio_posix, only: make_directory
    use benchio_text, only: decimal, unset
    implicit none (type, external)
    private

    public :: add_component, check_layout, held_by, mismatch, unset

    !> Longest names of pools and targets.
    integer, parameter, public :: name_length = 64

    !> What is asked of the files of a directory.
    type, public :: layout_request
        integer(int64) :: stripe_count = unset          !! -1: over all OSTs
        integer(int64) :: stripe_size = unset           !! bytes
        character(name_length) :: pool = ''
        character(1024) :: setstripe = ''               !! options of Lustre's own program
        character(name_length) :: target = ''           !! all of each file on this target alone
    contains
        procedure :: is_set
        procedure :: line
    end type layout_request

    !> One component of a file's layout; a plain file has one.
    type, public :: component
        integer(int64) :: first_byte = 0
        integer(int64) :: end_byte = unset              !! the first behind it; unset: end of file
        character(16) :: pattern = ''                   !! raid0, mdt, overstriped, released, ...
        integer(int64) :: stripe_count = unset          !! -1: all OSTs, of one not instantiated
        integer(int64) :: stripe_size = unset           !! bytes
        character(name_length) :: pool = ''             !! empty: none, or not known
        integer(int64), allocatable :: osts(:)          !! of each stripe; empty: not known
        logical :: is_instantiated = .true.             !! it has objects to hold data
        logical :: is_stale = .false.                   !! a mirror that the last write left behind
    end type component

    !> The layout that a file really has.
    type, public :: file_layout
        logical :: is_known = .false.                   !! the filesystem says something of it
        type(component) :: holder                       !! the component that holds the data
        type(component), allocatable :: components(:)   !! all of them
        character(:), allocatable :: said               !! by a program, as it said it; or empty
    end type file_layout

    !> How a filesystem lays files out. The procedures are called by one rank, none collectively.
    type, abstract, public :: layout_keeper
        character(:), allocatable :: filesystem         !! its name, as a person says it
    contains
        procedure(find_refusal), deferred :: refusal    !! why a request cannot be met; or empty
        procedure(set_layout), deferred :: set
        procedure(observe_file), deferred :: observe
        procedure :: echo
        procedure :: exchanged
        procedure :: stripe_places
        procedure :: make_run_directory
        procedure :: mdt_index
    end type layout_keeper

    abstract interface
        !> Why nothing of the kind can be asked for here: one sentence, or an empty text.
        function find_refusal(self, request, mdt_index) result(text)
            import :: layout_keeper, layout_request
            class(layout_keeper), intent(in) :: self
            type(layout_request), intent(in) :: request
            integer, intent(in) :: mdt_index            !! less than 0: none is asked for
            character(:), allocatable :: text
        end function find_refusal

        !> Lays out the files to be made in a directory.
        subroutine set_layout(self, directory, request, error)
            import :: failure, layout_keeper, layout_request
            class(layout_keeper), intent(in) :: self
            character(*), intent(in) :: directory
            type(layout_request), intent(in) :: request
            type(failure), intent(inout) :: error
        end subroutine set_layout

        !> The layout of a file; error is empty, or says why it could not be asked for.
        subroutine observe_file(self, path, bytes, found, error)
            import :: file_layout, int64, layout_keeper
            class(layout_keeper), intent(in) :: self
            character(*), intent(in) :: path
            integer(int64), intent(in) :: bytes         !! the size of the file
            type(file_layout), intent(out) :: found
            character(:), allocatable, intent(out) :: error
        end subroutine observe_file
    end interface

contains

    !> Whether any layout is asked for.
    elemental logical function is_set(self)
        class(layout_request), intent(in) :: self

        is_set = self%stripe_count /= unset .or. self%stripe_size /= unset .or. self%pool /= '' &
            .or. self%setstripe /= '' .or. self%target /= ''
    end function is_set

    !> As "stripe count 4, stripe size 1048576", without what is not asked for.
    pure function line(self) result(text)
        class(layout_request), intent(in) :: self
        character(:), allocatable :: text

        text = ''
        if (self%stripe_count /= unset) text = text//', stripe count '//decimal(self%stripe_count)
        if (self%stripe_size /= unset) text = text//', stripe size '//decimal(self%stripe_size)
        if (self%pool /= '') text = text//', pool '//trim(self%pool)
        if (self%setstripe /= '') text = text//', lfs setstripe '//trim(self%setstripe)
        if (self%target /= '') text = text//', target '//trim(self%target)
        text = text(3:)     ! nothing asked for: still nothing
    end function line

    !> Observes a file, and where a layout was asked for, fails unless the file has it. Without such
    !> a wish a layout that cannot be observed is none of the run's failures.
    subroutine check_layout(keeper, path, bytes, request, found, error)
        class(layout_keeper), intent(in) :: keeper
        character(*), intent(in) :: path
        integer(int64), intent(in) :: bytes             !! the size of the file
        type(layout_request), intent(in) :: request
        type(file_layout), intent(out) :: found
        type(failure), intent(inout) :: error

        character(:), allocatable :: message

        call keeper%observe(path, bytes, found, message)
        if (.not. request%is_set()) return
        if (message == '' .and. .not. found%is_known) then
            message = 'the layout cannot be observed, and this was asked for: '//request%line()
        else if (message == '') then
            message = keeper%exchanged(request, found)
            if (message == '') message = mismatch(request, found%holder)
        end if
        if (message /= '') call error%set(exit_io, 'layout', path, message)
    end subroutine check_layout

    !> Says how the component that holds a file's data is not what was asked for; empty if it is.
    !>
    !> All OSTs (-1) means more than one: how many of them took part is the filesystem's choice,
    !> which leaves out full and inactive ones.
    pure function mismatch(request, found) result(text)
        type(layout_request), intent(in) :: request
        type(component), intent(in) :: found
        character(:), allocatable :: text

        text = ''
        if (request%stripe_count > 0 .and. found%stripe_count /= request%stripe_count) then
            text = ', stripe count '//decimal(found%stripe_count)
        else if (request%stripe_count == -1 .and. found%stripe_count <= 1) then
            text = ', stripe count '//decimal(found%stripe_count)
        end if
        if (request%stripe_size > 0 .and. found%stripe_size /= request%stripe_size) then
            text = text//', stripe size '//decimal(found%stripe_size)
        end if
        if (request%pool /= '' .and. found%pool /= request%pool) then
            text = text//', pool '//trim(merge(found%pool, '(none)'//repeat(' ', name_length - 6), &
                found%pool /= ''))
        end if
        if (text /= '') text = 'the file has '//text(3:)//', asked for: '//request%line()
    end function mismatch

    !> What the directory says after it was set, which is no evidence; here nothing.
    subroutine echo(self, directory, found, is_known)
        class(layout_keeper), intent(in) :: self
        character(*), intent(in) :: directory
        type(component), intent(out) :: found
        logical, intent(out) :: is_known

        associate (unused => self, not_asked => directory)
        end associate
        found%stripe_count = unset
        is_known = .false.
    end subroutine echo

    !> Says that a file is on another target than the one it was to be on; empty if it is not.
    function exchanged(self, request, found) result(text)
        class(layout_keeper), intent(in) :: self
        type(layout_request), intent(in) :: request
        type(file_layout), intent(in) :: found
        character(:), allocatable :: text

        associate (unused => self, not_asked => request, not_seen => found)
        end associate
        text = ''
    end function exchanged

    !> Places in a file where nothing is written yet, one in each of its stripes, and the storage
    !> target of each; none where nobody knows.
    subroutine stripe_places(self, path, bytes, places, osts)
        class(layout_keeper), intent(in) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: bytes             !! that the file is to have
        integer(int64), allocatable, intent(out) :: places(:), osts(:)

        associate (unused => self, not_asked => path, alike => bytes)
        end associate
        allocate (places(0), osts(0))
    end subroutine stripe_places

    !> A directory for this user alone, which must not exist; error is empty or says what failed.
    subroutine make_run_directory(self, path, mdt_index, error)
        class(layout_keeper), intent(in) :: self
        character(*), intent(in) :: path
        integer, intent(in) :: mdt_index                !! less than 0: none is asked for
        character(:), allocatable, intent(out) :: error

        associate (unused => self, refused_before => mdt_index)
        end associate
        call make_directory(path, error)
    end subroutine make_run_directory

    !> The metadata target that a directory is on; less than 0 where there are none, or not known.
    integer function mdt_index(self, directory)
        class(layout_keeper), intent(in) :: self
        character(*), intent(in) :: directory

        associate (unused => self, not_asked => directory)
        end associate
        mdt_index = -1
    end function mdt_index

    !> Appends a component to a layout.
    pure subroutine add_component(found, one)
        type(file_layout), intent(inout) :: found
        type(component), intent(in) :: one

        type(component), allocatable :: more(:)
        integer :: n

        n = 0
        if (allocated(found%components)) n = size(found%components)
        allocate (more(n + 1))
        if (n > 0) more(:n) = found%components
        more(n + 1) = one
        call move_alloc(more, found%components)
    end subroutine add_component

    !> The number of the component that holds most of a file's bytes, 0 if none has objects. Of
    !> mirrors, one that is not stale.
    pure integer function held_by(components, bytes) result(number)
        type(component), intent(in) :: components(:)
        integer(int64), intent(in) :: bytes             !! the size of the file

        integer(int64) :: held, most
        integer :: i

        number = 0
        most = -1
        do i = 1, size(components)
            if (.not. components(i)%is_instantiated .or. components(i)%is_stale) cycle
            held = bytes
            if (components(i)%end_byte /= unset) held = min(bytes, components(i)%end_byte)
            held = max(0_int64, held - components(i)%first_byte)
            if (held <= most) cycle
            most = held
            number = i
        end do
    end function held_by

end module benchio_file_layout
