!> Layouts on Lustre: set by `lfs`, observed in an extended attribute.
!>
!> A layout is set by one call of `lfs setstripe`, without a shell: that llapi_file_open does the
!> same for a directory is documented nowhere. It is observed in the attribute "lustre.lov", which
!> needs neither a library nor a program: a little-endian struct lov_user_md_v1 or _v3, or a
!> lov_comp_md_v1, which holds several of them (all in lustre_user.h).
module benchio_lustre
    use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int32_t, c_null_char
    use, intrinsic :: iso_fortran_env, only: int64, int8
    use benchio_failure, only: exit_io, failure
    use benchio_file_layout, only: add_component, component, file_layout, held_by, layout_keeper, &
        layout_request, unset
    use benchio_filesystem, only: served_name
    use benchio_posix, only: attempt, get_attribute, make_directory, make_private, &
        remove_directory
    use benchio_program, only: blanks_to_words, run_program, word
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: decode_layout, places_in, setstripe_words

    type, extends(layout_keeper), public :: lustre_keeper
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
    end type lustre_keeper

    interface
        integer(c_int) function c_lustre_mdt(path, number) bind(C, name='benchio_lustre_mdt')
            import :: c_char, c_int, c_int32_t
            character(kind=c_char), intent(in) :: path(*)
            integer(c_int32_t), intent(out) :: number
        end function c_lustre_mdt
    end interface

contains

    !> The filesystem's name.
    function identity(self) result(text)
        class(lustre_keeper), intent(in) :: self
        character(:), allocatable :: text

        text = served_name(self%mounted%source)
    end function identity

    function refusal(self, request, mdt_index) result(text)
        class(lustre_keeper), intent(in) :: self
        type(layout_request), intent(in) :: request
        integer, intent(in) :: mdt_index
        character(:), allocatable :: text

        text = ''
        if (verify(trim(request%target), '0123456789') > 0) then
            text = 'on Lustre --targets takes the numbers of OSTs, not "'//trim(request%target)//'"'
        end if
    end function refusal

    subroutine set(self, directory, request, error)
        class(lustre_keeper), intent(in) :: self
        character(*), intent(in) :: directory
        type(layout_request), intent(in) :: request
        type(failure), intent(inout) :: error

        character(:), allocatable :: message, output

        call run_program(setstripe_words(directory, request), output, message)
        if (message /= '') call error%set(exit_io, 'lfs setstripe', directory, message)
    end subroutine set

    !> The command line for run_program. What is not asked for gets the filesystem's default.
    pure function setstripe_words(directory, request) result(words)
        character(*), intent(in) :: directory
        type(layout_request), intent(in) :: request
        character(:), allocatable :: words

        words = word('lfs')//word('setstripe')
        if (request%target /= '') words = words//word('-c')//word('1')//word('-i') &
            //word(request%target)
        if (request%stripe_count /= unset) words = words//word('-c') &
            //word(decimal(request%stripe_count))
        if (request%stripe_size /= unset) words = words//word('-S') &
            //word(decimal(request%stripe_size))
        if (request%pool /= '') words = words//word('-p')//word(request%pool)
        words = words//blanks_to_words(request%setstripe)//directory//c_null_char
    end function setstripe_words

    subroutine observe(self, path, bytes, seen, error)
        class(lustre_keeper), intent(in) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: bytes
        type(file_layout), intent(out) :: seen
        character(:), allocatable, intent(out) :: error

        integer(int8), allocatable :: attribute(:)

        call get_attribute(path, 'lustre.lov', attribute, error)
        call decode_layout(attribute, bytes, seen)
    end subroutine observe

    !> Repeats a directory's own layout, unless it is composite: then there is no single count and
    !> size. In a directory 0 is the filesystem's default.
    subroutine echo(self, directory, seen, is_known)
        class(lustre_keeper), intent(in) :: self
        character(*), intent(in) :: directory
        type(component), intent(out) :: seen
        logical, intent(out) :: is_known

        character(:), allocatable :: ignored
        integer(int8), allocatable :: attribute(:)
        type(file_layout) :: whole

        call get_attribute(directory, 'lustre.lov', attribute, ignored)
        call decode_layout(attribute, 0_int64, whole)
        is_known = whole%is_known .and. size(whole%components) == 1
        if (.not. is_known) return
        seen = whole%components(1)
        if (seen%stripe_count == 0) seen%stripe_count = unset
        if (seen%stripe_size == 0) seen%stripe_size = unset
    end subroutine echo

    !> Instead of an OST that takes no new files Lustre chooses another, and says nothing.
    function exchanged(self, request, seen) result(text)
        class(lustre_keeper), intent(in) :: self
        type(layout_request), intent(in) :: request
        type(file_layout), intent(in) :: seen
        character(:), allocatable :: text

        integer(int64) :: wanted

        text = ''
        if (request%target == '') return
        read (request%target, *) wanted
        if (size(seen%holder%osts) == 1) then
            if (seen%holder%osts(1) == wanted) return
            text = 'Lustre has put the file on OST '//decimal(seen%holder%osts(1)) &
                //' instead of OST '//trim(request%target) &
                //', which takes no new files: it is deactivated, or full'
        else
            text = 'the file has '//decimal(size(seen%holder%osts))//' stripes, and was to be ' &
                //'on OST '//trim(request%target)//' alone'
        end if
    end function exchanged

    subroutine stripe_places(self, path, bytes, places, osts)
        class(lustre_keeper), intent(in) :: self
        character(*), intent(in) :: path
        integer(int64), intent(in) :: bytes
        integer(int64), allocatable, intent(out) :: places(:), osts(:)

        character(:), allocatable :: error
        type(file_layout) :: seen

        allocate (places(0), osts(0))
        call self%observe(path, bytes, seen, error)
        if (error == '' .and. seen%is_known) call places_in(seen%holder, bytes, places, osts)
    end subroutine stripe_places

    !> Finds a place in each stripe of a component where a write needs room on its OST: behind the
    !> bytes of the file and a row of stripes more, which a header may have moved them into; or at
    !> the end of the component, if that comes before. Stripes take turns from the beginning of the
    !> file, in every component.
    pure subroutine places_in(holder, bytes, places, osts)
        type(component), intent(in) :: holder
        integer(int64), intent(in) :: bytes
        integer(int64), allocatable, intent(out) :: places(:), osts(:)

        integer(int64) :: first, i, row, stripe

        stripe = holder%stripe_size
        associate (stripes => size(holder%osts, kind=int64))
            if (stripes == 0 .or. stripe <= 0) then
                allocate (places(0), osts(0))
                return
            end if
            row = stripes*stripe
            first = (bytes/row + 2)*row
            if (holder%end_byte /= unset) first = max(holder%first_byte, min(first, &
                holder%end_byte - row))
            places = [(first + i*stripe, i=0, stripes - 1)]
            osts = holder%osts(1 + mod(places/stripe, stripes))
        end associate
    end subroutine places_in

    subroutine make_run_directory(self, path, mdt_index, error)
        class(lustre_keeper), intent(in) :: self
        character(*), intent(in) :: path
        integer, intent(in) :: mdt_index
        character(:), allocatable, intent(out) :: error

        character(:), allocatable :: ignored, output
        integer :: seen

        if (mdt_index < 0) then
            call attempt(make_directory, path, error)
            return
        end if
        call run_program(word('lfs')//word('mkdir')//word('-i')//word(decimal(mdt_index))//path &
            //c_null_char, output, error)
        if (error /= '') then
            error = 'lfs mkdir: '//error
            return
        end if
        call attempt(make_private, path, error)
        seen = self%mdt_index(path)
        if (error == '' .and. seen /= mdt_index) then
            error = 'the directory is on MDT '//decimal(seen)//', asked for: '//decimal(mdt_index)
            if (seen < 0) error = 'the MDT of the directory cannot be observed, asked for: ' &
                //decimal(mdt_index)
        end if
        if (error /= '') call attempt(remove_directory, path, ignored)
    end subroutine make_run_directory

    integer function mdt_index(self, directory)
        class(lustre_keeper), intent(in) :: self
        character(*), intent(in) :: directory

        integer(c_int32_t) :: number

        mdt_index = -1
        if (c_lustre_mdt(directory//c_null_char, number) == 0) mdt_index = number
    end function mdt_index

    !> Decodes lustre.lov; what cannot be decoded is not known.
    !>
    !> A composite layout: magic, size and generation of 4 bytes each, flags and number of entries
    !> of 2, up to byte 32; then entries of 48 bytes: id, flags, first byte and end of 8 bytes each,
    !> and offset and size of the component's own layout within the whole.
    pure subroutine decode_layout(attribute, bytes, seen)
        integer(int8), intent(in) :: attribute(:)
        integer(int64), intent(in) :: bytes             !! the size of the file
        type(file_layout), intent(out) :: seen

        integer(int64), parameter :: composite = int(z'0bd60bd0', int64)
        integer(int64), parameter :: header = 32, entry = 48
        integer(int64), parameter :: is_stale = 1, has_objects = 16     ! flags of a component
        integer(int64) :: at, first, flags, last, number
        type(component) :: part
        logical :: is_valid

        allocate (seen%components(0))
        seen%said = ''
        if (size(attribute) < header) return
        is_valid = .false.
        if (unsigned(attribute(1:4)) /= composite) then
            call decode_plain(attribute, part, is_valid)
            if (is_valid) call add_component(seen, part)
        else
            do number = 1, unsigned(attribute(15:16))
                at = header + (number - 1)*entry
                is_valid = at + entry <= size(attribute)
                if (.not. is_valid) exit
                first = unsigned(attribute(at + 25:at + 28))
                last = first + unsigned(attribute(at + 29:at + 32))
                is_valid = last <= size(attribute)
                if (is_valid) call decode_plain(attribute(first + 1:last), part, is_valid)
                if (.not. is_valid) exit
                flags = unsigned(attribute(at + 5:at + 8))
                part%is_instantiated = iand(flags, has_objects) /= 0
                part%is_stale = iand(flags, is_stale) /= 0
                part%first_byte = unsigned(attribute(at + 9:at + 16))
                part%end_byte = unsigned(attribute(at + 17:at + 24))
                call add_component(seen, part)
            end do
            if (.not. is_valid) then
                deallocate (seen%components)
                allocate (seen%components(0))
            end if
        end if
        if (size(seen%components) == 0) return
        number = held_by(seen%components, bytes)
        seen%is_known = number > 0
        if (seen%is_known) seen%holder = seen%components(number)
    end subroutine decode_layout

    !> Decodes a layout of one component: magic, pattern, object id of 16 bytes, stripe size, stripe
    !> count in 16 bits, generation; version 3 adds a pool name of 16 bytes; then 24 bytes for each
    !> stripe, of which the last 4 are its OST.
    pure subroutine decode_plain(attribute, part, is_valid)
        integer(int8), intent(in) :: attribute(:)
        type(component), intent(out) :: part
        logical, intent(out) :: is_valid

        integer(int64), parameter :: version_1 = int(z'0bd10bd0', int64), &
            version_3 = int(z'0bd30bd0', int64), foreign = int(z'0bd70bd0', int64), all = 65535
        integer, parameter :: header = 32, pool_bytes = 16, stripe = 24
        integer :: at

        is_valid = .false.
        allocate (part%osts(0))
        if (size(attribute) < 8) return
        if (unsigned(attribute(1:4)) == foreign) then
            is_valid = .true.
            part%pattern = 'foreign'
            return
        end if
        if (size(attribute) < header) return
        at = header
        if (unsigned(attribute(1:4)) == version_3) then
            at = header + pool_bytes
            if (size(attribute) < at) return
            part%pool = transfer(attribute(header + 1:at), part%pool(:pool_bytes))
            part%pool = part%pool(:index(part%pool//achar(0), achar(0)) - 1)
        else if (unsigned(attribute(1:4)) /= version_1) then
            return
        end if
        is_valid = .true.
        part%pattern = pattern_name(unsigned(attribute(5:8)))
        part%stripe_size = unsigned(attribute(25:28))
        part%stripe_count = unsigned(attribute(29:30))
        if (part%stripe_count == all) part%stripe_count = -1
        do while (at + stripe <= size(attribute))
            part%osts = [part%osts, unsigned(attribute(at + stripe - 3:at + stripe))]
            at = at + stripe
        end do
    end subroutine decode_plain

    !> A pattern in a word; what tells most comes first.
    pure function pattern_name(bits) result(name)
        integer(int64), intent(in) :: bits
        character(:), allocatable :: name

        character(11), parameter :: names(*) = [character(11) :: 'released', 'mdt', 'overstriped', &
            'foreign', 'compressed', 'raid0']
        integer(int64), parameter :: masks(*) = [int(z'80000000', int64), int(z'100', int64), &
            int(z'200', int64), int(z'400', int64), int(z'800', int64), 1_int64]
        integer :: number

        number = findloc(iand(bits, masks) /= 0, .true., 1)
        name = 'unknown'
        if (number > 0) name = trim(names(number))
    end function pattern_name

    !> A little-endian number. Of 8 bytes, the largest is the end of a file.
    pure integer(int64) function unsigned(attribute) result(number)
        integer(int8), intent(in) :: attribute(:)

        integer :: i

        number = unset
        if (size(attribute) == 8 .and. all(attribute == -1_int8)) return
        number = 0
        do i = size(attribute), 1, -1
            number = ior(shiftl(number, 8), iand(int(attribute(i), int64), 255_int64))
        end do
    end function unsigned

end module benchio_lustre
