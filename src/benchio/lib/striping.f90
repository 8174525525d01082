!> Lustre's striping: asked for on a directory, observed on the files made in it.
!>
!> Setting goes through `lfs setstripe`. Observing reads the extended attribute "lustre.lov", a
!> little-endian struct lov_user_md_v1 or _v3 (lustre_user.h), which needs no library; only for a
!> composite (progressive) layout `lfs getstripe` is asked, which tells of one component.
!>
!> This was written without a Lustre at hand: the bytes come from lustre_user.h and the output of
!> lfs from its manual, and the tests feed the decoders and use a stand-in (tests/faults/lfs).
module benchio_striping
    use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int32_t, c_int8_t, c_null_char
    use, intrinsic :: iso_fortran_env, only: int64, int8
    use benchio_failure, only: exit_io, failure
    use benchio_posix, only: fortran_text, text_of
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: check_striping, decode_layout, observe_striping, parse_getstripe, set_striping
    public :: setstripe_command, striping_matches

    !> Of a member of striping: nothing asked for, or nothing known.
    integer(int64), parameter, public :: unset = -huge(0_int64)

    type, public :: striping
        integer(int64) :: count = unset     !! OSTs; asked for: -1 all, 0 the filesystem's default
        integer(int64) :: size = unset      !! bytes; asked for: 0 the filesystem's default
        integer(int64) :: offset = unset    !! first OST; asked for: -1 any
    contains
        procedure :: is_set
        procedure :: line
    end type striping

    !> What the bytes of lustre.lov are.
    integer, parameter, public :: layout_unknown = 0, layout_plain = 1, layout_composite = 2

    integer(int64), parameter :: magic_v1 = int(z'0bd10bd0', int64), &
        magic_v3 = int(z'0bd30bd0', int64), magic_composite = int(z'0bd60bd0', int64)

    integer, parameter :: largest_attribute = 65536     ! Linux: XATTR_SIZE_MAX
    integer, parameter :: output_size = 4096

    interface
        integer(c_int) function c_lustre_layout(path, bytes, size, length) &
            bind(C, name='benchio_lustre_layout')
            import :: c_char, c_int, c_int32_t, c_int8_t
            character(kind=c_char), intent(in) :: path(*)
            integer(c_int8_t), intent(out) :: bytes(*)
            integer(c_int32_t), value :: size
            integer(c_int32_t), intent(out) :: length
        end function c_lustre_layout

        integer(c_int) function c_run(command, output, size) bind(C, name='benchio_run')
            import :: c_char, c_int, c_int32_t
            character(kind=c_char), intent(in) :: command(*)
            character(kind=c_char), intent(out) :: output(*)
            integer(c_int32_t), value :: size
        end function c_run
    end interface

contains

    !> Whether anything is asked for.
    elemental logical function is_set(self)
        class(striping), intent(in) :: self

        is_set = self%count /= unset .or. self%size /= unset .or. self%offset /= unset
    end function is_set

    !> As "count 4, size 1048576", without what is not set.
    pure function line(self) result(text)
        class(striping), intent(in) :: self
        character(:), allocatable :: text

        text = ''
        if (self%count /= unset) text = text//', count '//decimal(self%count)
        if (self%size /= unset) text = text//', size '//decimal(self%size)
        if (self%offset /= unset) text = text//', offset '//decimal(self%offset)
        text = text(3:)     ! nothing set: still nothing
    end function line

    !> Asks for a striping of the files to be made in a directory; on one rank only.
    subroutine set_striping(directory, wanted, filesystem, error)
        character(*), intent(in) :: directory, filesystem
        type(striping), intent(in) :: wanted
        type(failure), intent(inout) :: error

        character(:), allocatable :: output
        integer :: status

        if (.not. wanted%is_set()) return
        if (filesystem /= 'lustre') then
            call error%set(exit_io, 'lfs setstripe', directory, 'stripe settings were asked ' &
                //'for, but the directory is on '//filesystem//', not lustre')
            return
        end if
        call run(setstripe_command(directory, wanted), output, status)
        if (status /= 0) call error%set(exit_io, 'lfs setstripe', directory, output)
    end subroutine set_striping

    !> The command for a shell. What is not asked for gets the filesystem's default.
    pure function setstripe_command(directory, wanted) result(command)
        character(*), intent(in) :: directory
        type(striping), intent(in) :: wanted
        character(:), allocatable :: command

        command = 'lfs setstripe'
        if (wanted%count /= unset) command = command//' -c '//decimal(wanted%count)
        if (wanted%size /= unset) command = command//' -S '//decimal(wanted%size)
        if (wanted%offset /= unset) command = command//' -i '//decimal(wanted%offset)
        command = command//' '//quoted(directory)
    end function setstripe_command

    !> The striping a file really has; not known off Lustre, and where Lustre keeps it otherwise.
    subroutine observe_striping(path, found, is_known, error)
        character(*), intent(in) :: path
        type(striping), intent(out) :: found
        logical, intent(out) :: is_known
        type(failure), intent(inout) :: error

        character(:), allocatable :: output
        integer(c_int8_t), allocatable :: bytes(:)
        integer(c_int32_t) :: length
        integer :: code, kind, status

        is_known = .false.
        allocate (bytes(largest_attribute))
        code = c_lustre_layout(path//c_null_char, bytes, size(bytes, kind=c_int32_t), length)
        if (code /= 0) then
            call error%set(exit_io, 'lgetxattr', path, text_of(code))
            return
        end if
        call decode_layout(bytes(:length), kind, found)
        is_known = kind == layout_plain
        if (kind /= layout_composite) return

        call run('lfs getstripe -c -S -i '//quoted(path), output, status)
        if (status /= 0) then
            call error%set(exit_io, 'lfs getstripe', path, output)
            return
        end if
        call parse_getstripe(output, found, is_known)
    end subroutine observe_striping

    !> Observes a file, and where a striping was asked for, fails unless the file has it. Without
    !> such a wish a striping that cannot be observed is none of the run's failures.
    subroutine check_striping(path, wanted, found, is_known, error)
        character(*), intent(in) :: path
        type(striping), intent(in) :: wanted
        type(striping), intent(out) :: found
        logical, intent(out) :: is_known
        type(failure), intent(inout) :: error

        type(failure) :: unseen

        call observe_striping(path, found, is_known, unseen)
        if (.not. wanted%is_set()) return
        if (unseen%failed()) then
            call error%set(unseen%status, unseen%call, path, unseen%message)
        else if (.not. is_known) then
            call error%set(exit_io, 'lgetxattr', path, 'striping cannot be observed, asked for: ' &
                //wanted%line())
        else if (.not. striping_matches(wanted, found)) then
            call error%set(exit_io, 'lgetxattr', path, 'striping is '//found%line() &
                //', asked for: '//wanted%line())
        end if
    end subroutine check_striping

    !> Whether an observed striping is what was asked for.
    !>
    !> All OSTs (count -1) means more than one: how many of them took part is Lustre's choice, which
    !> leaves out full and inactive ones. A default (0) or any first OST (-1) is always met.
    pure logical function striping_matches(wanted, found) result(matches)
        type(striping), intent(in) :: wanted, found

        matches = .true.
        if (wanted%count > 0) matches = found%count == wanted%count
        if (wanted%count == -1) matches = found%count > 1 .or. found%count == -1
        if (wanted%size > 0) matches = matches .and. found%size == wanted%size
        if (wanted%offset >= 0) matches = matches .and. found%offset == wanted%offset
    end function striping_matches

    !> Decodes lustre.lov: magic, pattern, object id of 16 bytes, stripe size, stripe count in 16
    !> bits, generation; version 3 adds a pool name of 16 bytes; then 24 bytes for each stripe, of
    !> which the last 4 are its OST.
    pure subroutine decode_layout(bytes, kind, found)
        integer(int8), intent(in) :: bytes(:)
        integer, intent(out) :: kind
        type(striping), intent(out) :: found

        integer, parameter :: header = 32, pool_name = 16, stripe = 24
        integer :: stripes      ! bytes before the first

        kind = layout_unknown
        if (size(bytes) < header) return
        stripes = header
        select case (unsigned(bytes(1:4)))
        case (magic_v1)
            kind = layout_plain
        case (magic_v3)
            kind = layout_plain
            stripes = header + pool_name
        case (magic_composite)
            kind = layout_composite
            return
        case default
            return
        end select
        found%size = unsigned(bytes(25:28))
        found%count = unsigned(bytes(29:30))
        if (found%count == 65535) found%count = -1     ! all, in a directory's default
        if (size(bytes) >= stripes + stripe) then
            found%offset = unsigned(bytes(stripes + stripe - 3:stripes + stripe))
        end if
    end subroutine decode_layout

    !> Little-endian, up to 7 bytes.
    pure integer(int64) function unsigned(bytes) result(number)
        integer(int8), intent(in) :: bytes(:)

        integer :: i

        number = 0
        do i = size(bytes), 1, -1
            number = 256*number + iand(int(bytes(i), int64), 255_int64)
        end do
    end function unsigned

    !> Reads what `lfs getstripe -c -S -i` says, as "lmm_stripe_count:  4", on one line; of several
    !> components the last counts.
    pure subroutine parse_getstripe(output, found, is_known)
        character(*), intent(in) :: output
        type(striping), intent(out) :: found
        logical, intent(out) :: is_known

        found%count = number_after('stripe_count:', output)
        found%size = number_after('stripe_size:', output)
        found%offset = number_after('stripe_offset:', output)
        is_known = found%count /= unset .and. found%size /= unset
    end subroutine parse_getstripe

    pure integer(int64) function number_after(label, output) result(number)
        character(*), intent(in) :: label, output

        integer(int64) :: value
        integer :: at, code

        number = unset
        at = index(output, label, back=.true.)
        if (at == 0) return
        read (output(at + len(label):), *, iostat=code) value
        if (code == 0) number = value
    end function number_after

    !> Runs a command; its output as one line, or why it failed.
    subroutine run(command, output, status)
        character(*), intent(in) :: command
        character(:), allocatable, intent(out) :: output
        integer, intent(out) :: status

        character(kind=c_char) :: buffer(output_size)
        integer :: i

        status = c_run(command//' 2>&1'//c_null_char, buffer, size(buffer, kind=c_int32_t))
        if (status < 0) then
            output = text_of(-status)
            return
        end if
        output = fortran_text(buffer)
        do i = 1, len(output)
            if (iachar(output(i:i)) < 32) output(i:i) = ' '
        end do
        output = trim(adjustl(output))
        if (status /= 0) output = 'exit status '//decimal(status)//': '//output
    end subroutine run

    !> One word for the shell, whatever is in it.
    pure function quoted(word)
        character(*), intent(in) :: word
        character(:), allocatable :: quoted

        integer :: i

        quoted = ''''
        do i = 1, len(word)
            if (word(i:i) == '''') then
                quoted = quoted//'''\'''''
            else
                quoted = quoted//word(i:i)
            end if
        end do
        quoted = quoted//''''
    end function quoted

end module benchio_striping
