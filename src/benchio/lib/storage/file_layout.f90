!> The layout of a file over the storage targets of a filesystem, asked for and observed.
!>
!> A layout is asked for on a directory, whose files inherit it, and observed on a file. How both
!> are done is the filesystem's: layout_keeper itself sets none and sees none, and each filesystem
!> that does more extends it once. A layout that was asked for must be observed: a repetition by
!> an interface (an echo) is no evidence.
module benchio_file_layout
    use, intrinsic :: iso_fortran_env, only: int64
    use benchio_failure, only: exit_io, failure
    use benchio_filesystem, only: identity_of
    use benchio_mount, only: mounted_filesystem
    use benchio_posix, only: attempt, make_directory
    use benchio_text, only: decimal, unset
    implicit none (type, external)
    private

    public :: add_component, check_layout, held_by, mismatch, unset

    !> Longest names of pools and targets.
    integer, parameter, public :: name_length = 64

    !> A wish for the files of a directory.
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

    !> A filesystem as the one that lays files out. One rank calls its procedures; none is
    !> collective.
    type, public :: layout_keeper
        character(:), allocatable :: filesystem         !! its name, as a person says it
        character(:), allocatable :: type               !! its name, as statfs has it
        type(mounted_filesystem) :: mounted
    contains
        procedure :: identity
        procedure :: refusal
        procedure :: set
        procedure :: observe
        procedure :: echo
        procedure :: exchanged
        procedure :: stripe_places
        procedure :: make_run_directory
        procedure :: mdt_index
    end type layout_keeper

contains

    !> Returns what the filesystem is known by, beside its type and its mount point.
    function identity(self) result(text)
        class(layout_keeper), intent(in) :: self
        character(:), allocatable :: text

        text = identity_of(self%type, self%mounted)
    end function identity

    !> Says whether any layout is asked for.
    elemental logical function is_set(self)
        class(layout_request), intent(in) :: self

        is_set = self%stripe_count /= unset .or. self%stripe_size /= unset .or. self%pool /= '' &
            .or. self%setstripe /= '' .or. self%target /= ''
    end function is_set

    !> Words a request as "stripe count 4, stripe size 1048576"; empty if nothing is asked for.
    pure function line(self) result(text)
        class(layout_request), intent(in) :: self
        character(:), allocatable :: text

        text = ''
        if (self%stripe_count /= unset) text = text//', stripe count '//decimal(self%stripe_count)
        if (self%stripe_size /= unset) text = text//', stripe size '//decimal(self%stripe_size)
        if (self%pool /= '') text = text//', pool '//trim(self%pool)
        if (self%setstripe /= '') text = text//', lfs setstripe '//trim(self%setstripe)
        if (self%target /= '') text = text//', target '//trim(self%target)
        text = text(3:)     ! an empty text stays empty
    end function line

    !> Observes a file, and where a layout was asked for, fails unless the file has it. Without such
    !> a wish a layout that cannot be observed is none of the run's failures.
    subroutine check_layout(keeper, path, bytes, request, seen, error)
        class(layout_keeper), intent(in) :: keeper
        character(*), intent(in) :: path
        integer(int64), intent(in) :: bytes             !! the size of the file
        type(layout_request), intent(in) :: request
        type(file_layout), intent(out) :: seen
        type(failure), intent(inout) :: error

        character(:), allocatable :: message

        call keeper%observe(path, bytes, seen, message)
        if (.not. request%is_set()) return
        if (message == '' .and. .not. seen%is_known) then
            message = 'the layout cannot be observed, and this was asked for: '//request%line()
        else if (message == '') then
            message = keeper%exchanged(request, seen)
            if (message == '') message = mismatch(request, seen%holder)
        end if
        if (message /= '') call error%set(exit_io, 'layout', path, message)
    end subroutine check_layout

    !> Says how the component that holds a file's data is not what was asked for; empty if it is.
    !>
    !> All OSTs (-1) means more than one: how many of them took part is the filesystem's choice,
    !> which leaves out full and inactive ones.
    pure function mismatch(request, seen) result(text)
        type(layout_request), intent(in) :: request
        type(component), intent(in) :: seen
        character(:), allocatable :: text

        text = ''
        if (request%stripe_count > 0 .and. seen%stripe_count /= request%stripe_count) then
            text = ', stripe count '//decimal(seen%stripe_count)
        else if (request%stripe_count == -1 .and. seen%stripe_count <= 1) then
            text = ', stripe count '//decimal(seen%stripe_count)
        end if
        if (request%stripe_size > 0 .and. seen%stripe_size /= request%stripe_size) then
            text = text//', stripe size '//decimal(seen%stripe_size)
        end if
        if (request%pool /= '' .and. seen%pool /= request%pool) then
            text = text//', pool '//trim(merge(seen%pool, '(none)'//repeat(' ', name_length - 6), &
                seen%pool /= ''))
        end if
        if (text /= '') text = 'the file has '//text(3:)//', asked for: '//request%line()
    end function mismatch

    !> Says in a sentence why nothing of the kind can be asked for here; empty if it can.
    function refusal(self, request, mdt_index) result(text)
        class(layout_keeper), intent(in) :: self
        type(layout_request), intent(in) :: request
        integer, intent(in) :: mdt_index                !! less than 0: none is asked for
        character(:), allocatable :: text

        text = ''
        if (request%is_set() .or. mdt_index >= 0) text = 'a layout was asked for, but the ' &
            //'directory is on '//self%filesystem//', and benchio can set one on Lustre and ' &
            //'CephFS only'
    end function refusal

    !> Lays out the files to be made in a directory; here it is never called, for it was refused.
    subroutine set(self, directory, request, error)
        class(layout_keeper), intent(in) :: self
        character(*), intent(in) :: directory
        type(layout_request), intent(in) :: request
        type(failure), intent(inout) :: error
    end subroutine set

    !> Observes the layout of a file; error is empty, or says why it could not be asked for.
    subroutine observe(self, path, bytes, seen, error)
        class(layout_keeper), intent(in) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: bytes             !! the size of the file
        type(file_layout), intent(out) :: seen
        character(:), allocatable, intent(out) :: error

        error = ''
        seen%said = ''
        allocate (seen%components(0), seen%holder%osts(0))
    end subroutine observe

    !> Repeats what the directory says after it was set, which is no evidence; here nothing.
    subroutine echo(self, directory, seen, is_known)
        class(layout_keeper), intent(in) :: self
        character(*), intent(in) :: directory
        type(component), intent(out) :: seen
        logical, intent(out) :: is_known

        seen%stripe_count = unset
        is_known = .false.
    end subroutine echo

    !> Says that a file is on another target than the one it was to be on; empty if it is not.
    function exchanged(self, request, seen) result(text)
        class(layout_keeper), intent(in) :: self
        type(layout_request), intent(in) :: request
        type(file_layout), intent(in) :: seen
        character(:), allocatable :: text

        text = ''
    end function exchanged

    !> Finds places in a file where nothing is written yet, one in each of its stripes, and the
    !> storage target of each; none where nobody knows.
    subroutine stripe_places(self, path, bytes, places, osts)
        class(layout_keeper), intent(in) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: bytes             !! that the file is to have
        integer(int64), allocatable, intent(out) :: places(:), osts(:)

        allocate (places(0), osts(0))
    end subroutine stripe_places

    !> Makes a directory for this user alone, which must not exist; error is empty or says what
    !> failed.
    subroutine make_run_directory(self, path, mdt_index, error)
        class(layout_keeper), intent(in) :: self
        character(*), intent(in) :: path
        integer, intent(in) :: mdt_index                !! less than 0: none is asked for
        character(:), allocatable, intent(out) :: error

        call attempt(make_directory, path, error)
    end subroutine make_run_directory

    !> Returns the metadata target that a directory is on; less than 0 where there are none, or it
    !> is not known.
    integer function mdt_index(self, directory)
        class(layout_keeper), intent(in) :: self
        character(*), intent(in) :: directory

        mdt_index = -1
    end function mdt_index

    !> Appends a component to a layout.
    pure subroutine add_component(seen, part)
        type(file_layout), intent(inout) :: seen
        type(component), intent(in) :: part

        if (.not. allocated(seen%components)) allocate (seen%components(0))
        seen%components = [seen%components, part]
    end subroutine add_component

    !> Returns the number of the component that holds most of a file's bytes, 0 if none has objects.
    !> Stale mirrors do not count.
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
