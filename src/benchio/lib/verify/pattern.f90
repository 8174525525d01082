!> The data benchio writes: a hash of (index, run, backend, file, round) that every reader can
!> recompute.
!>
!> With i the 0-based index x + nx*(y + ny*z) in the array of a file, M = 2^31 - 1, and the text
!> "RUN/BACKEND/FILE/ROUND", such as "0f3a/hdf5/0/1" of the first file in the first round (files
!> are counted on from target to target):
!>
!>     mix(x): y = ((x ^ (x >> 15))*739982445) & M
!>             y = ((y ^ (y >> 12))*695872825) & M
!>             return y ^ (y >> 15)
!>     key   = 0, then for each character c of the text: mix(((key ^ c) + 1013904223) & M)
!>     a     = mix((i & M) ^ key)
!>     b     = mix(a ^ mix(((i >> 31) & M) ^ ((key + 1013904223) & M)))
!>     value = 1 + ((b << 21) | (a & 2097151))*2^-52
!>
!> Every value lies in [1, 2), exactly representable, so a hole's zero, a shifted or swapped block
!> and one that another run, backend, file or round has left are all seen. `mix` can be undone, so
!> that a wrong value tells of which place, or of which key, it is. Its shifts and factors are those
!> of a hash of 32 bits in C. Wellons, "Prospecting for Hash Functions", 2018, here in 31 bits.
!> content.c makes and compares the values.
module benchio_pattern
    use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int32_t, c_int64_t, c_loc, &
        c_ptr
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_access, only: element_bytes
    use benchio_decomposition, only: decomposition
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    public :: fill, halo_intact, key_of_text, pattern_key, pattern_value, poison

    !> Kinds of wrong elements, as benchio.h numbers them.
    integer, parameter, public :: kind_zeros = 1, kind_shifted = 2, kind_of_other = 3, &
        kind_unknown = 4
    character(10), parameter, public :: kind_names(4) = [character(10) :: 'zeros', 'shifted', &
        'of another', 'unknown']

    !> Extents that a rank remembers.
    integer, parameter, public :: most_extents = 16

    !> Fills halos, and memory before it is read into: never a value of the pattern.
    real(real64), parameter :: poison_value = -1.0_real64

    !> What is to be in a file, as content.c makes it.
    type, bind(C), public :: content
        integer(c_int64_t) :: key = 0
        integer(c_int64_t) :: kept_bits = not(0_c_int64_t)  !! of each value; the others are 0
        real(c_double) :: tolerance = 0     !! of what a library has rounded; 0: every bit counts
        integer(c_int32_t) :: as_big_endian = 0     !! 1: else in this machine's order
    end type content

    !> Wrong elements that follow each other in the file, and are wrong in the same way.
    type, public :: wrong_extent
        integer(int64) :: first = 0         !! index in the array of the file, from 0
        integer(int64) :: elements = 0
        integer :: kind = kind_unknown
        integer(int64) :: expected = 0      !! bits of the first, as they were written
        integer(int64) :: read = 0          !! and as they were read
        integer(int64) :: shift = 0         !! elements from each to the place that its value is of
        integer(int64) :: key = 0           !! of the pattern that its values are of
    end type wrong_extent

    !> Elements that are not what was written.
    type, public :: differences
        integer(int64) :: elements = 0
        integer(int64) :: zeros = 0         !! of them: what nobody wrote mostly reads as zero
        integer(int64) :: first = -1        !! index of the first in the array of the file, from 0
        integer :: extents = 0              !! all, of which the first are listed
        type(wrong_extent) :: listed(most_extents) = wrong_extent()
        type(wrong_extent), private :: last = wrong_extent()
        type(content) :: written = content()        !! that they were to be
    contains
        procedure :: add_run
        procedure :: add_block
        procedure :: line
    end type differences

    interface
        pure integer(c_int64_t) function pattern_bits(index, key) bind(C, name='benchio_word')
            import :: c_int64_t
            integer(c_int64_t), value :: index, key
        end function pattern_bits

        subroutine c_fill(written, index, bytes, to) bind(C, name='benchio_fill')
            import :: c_int64_t, c_ptr, content
            type(content), intent(in) :: written
            integer(c_int64_t), value :: index, bytes
            type(c_ptr), value :: to
        end subroutine c_fill

        integer(c_int64_t) function c_right_bytes(written, index, bytes, from, at) &
            bind(C, name='benchio_right_bytes')
            import :: c_int64_t, c_ptr, content
            type(content), intent(in) :: written
            integer(c_int64_t), value :: index, bytes, at
            type(c_ptr), value :: from
        end function c_right_bytes

        integer(c_int64_t) function c_word_at(written, from, at) bind(C, name='benchio_word_at')
            import :: c_int64_t, c_ptr, content
            type(content), intent(in) :: written
            type(c_ptr), value :: from
            integer(c_int64_t), value :: at
        end function c_word_at

        integer(c_int32_t) function c_kind_of_wrong(index, key, word, shift, other) &
            bind(C, name='benchio_kind_of_wrong')
            import :: c_int32_t, c_int64_t
            integer(c_int64_t), value :: index, key, word
            integer(c_int64_t), intent(out) :: shift, other
        end function c_kind_of_wrong

        pure integer(c_int64_t) function c_key(text, length) bind(C, name='benchio_key')
            import :: c_char, c_int64_t
            character(kind=c_char), intent(in) :: text(*)
            integer(c_int64_t), value :: length
        end function c_key
    end interface

contains

    !> 31-bit key of a file; file from 0, round from 1.
    pure integer(int64) function pattern_key(run_id, backend, file, round) result(key)
        character(*), intent(in) :: run_id, backend
        integer, intent(in) :: file, round

        key = key_of_text(run_id//'/'//backend//'/'//decimal(file)//'/'//decimal(round))
    end function pattern_key

    !> 31-bit hash of a text; 0 if it is empty.
    pure integer(int64) function key_of_text(text) result(key)
        character(*), intent(in) :: text

        key = c_key(text, len(text, c_int64_t))
    end function key_of_text

    !> Value of the element with a 0-based global index.
    elemental real(real64) function pattern_value(index, key) result(value)
        integer(int64), intent(in) :: index, key

        value = transfer(pattern_bits(index, key), value)
    end function pattern_value

    !> Sets the block to the pattern and its halo to the poison value.
    subroutine fill(field, block, written)
        !> Extents of the block plus twice the halo.
        real(real64), intent(out), contiguous, target :: field(:, :, :)
        type(decomposition), intent(in) :: block
        type(content), intent(in) :: written

        integer(int64) :: y, z

        if (block%halo > 0) field = poison_value
        associate (h => block%halo, n => block%extent)
            do z = 1, n(3)
                do y = 1, n(2)
                    call c_fill(written, row_start(block, y, z), element_bytes*n(1), &
                        c_loc(field(h + 1, y + h, z + h)))
                end do
            end do
        end associate
    end subroutine fill

    !> Compares elements that follow each other in the file. Every bit counts, unless a library has
    !> rounded them.
    subroutine add_run(self, values, elements, start)
        class(differences), intent(inout) :: self
        type(c_ptr), intent(in) :: values               !! as they are in the file
        integer(int64), intent(in) :: elements
        integer(int64), intent(in) :: start             !! index of the first of them, from 0

        integer(int64) :: bits, done

        done = 0
        do
            done = c_right_bytes(self%written, start, element_bytes*elements, values, &
                element_bytes*done)/element_bytes
            if (done == elements) return
            bits = c_word_at(self%written, values, element_bytes*done)
            if (self%elements == 0) self%first = start + done
            self%elements = self%elements + 1
            if (bits == 0) self%zeros = self%zeros + 1
            call note(self, start + done, bits)
            done = done + 1
        end do
    end subroutine add_run

    !> Notes a wrong element in the last extent, or as the first of another one.
    subroutine note(self, index, bits)
        class(differences), intent(inout) :: self
        integer(int64), intent(in) :: index, bits

        associate (last => self%last, key => self%written%key)
            if (self%extents > 0 .and. goes_on(last, index, bits, key)) then
                last%elements = last%elements + 1
            else
                self%extents = self%extents + 1
                last = wrong_extent(index, 1, expected=iand(pattern_bits(index, key), &
                    self%written%kept_bits), read=bits)
                last%kind = c_kind_of_wrong(index, key, bits, last%shift, last%key)
            end if
            if (self%extents <= most_extents) self%listed(self%extents) = last
        end associate
    end subroutine note

    !> Whether an element is the next of an extent, and wrong in the same way.
    pure logical function goes_on(extent, index, bits, key)
        type(wrong_extent), intent(in) :: extent
        integer(int64), intent(in) :: index, bits, key

        goes_on = index == extent%first + extent%elements
        if (.not. goes_on) return
        select case (extent%kind)
        case (kind_zeros)
            goes_on = bits == 0
        case (kind_shifted)
            goes_on = bits == pattern_bits(index + extent%shift, key)
        case (kind_of_other)
            goes_on = bits == pattern_bits(index, extent%key)
        case default
            goes_on = bits /= 0
        end select
    end function goes_on

    !> Compares a block, without its halo.
    subroutine add_block(self, field, block)
        class(differences), intent(inout) :: self
        real(real64), intent(in), contiguous, target :: field(:, :, :)  !! with halo
        type(decomposition), intent(in) :: block

        integer(int64) :: y, z

        associate (h => block%halo, n => block%extent)
            do z = 1, n(3)
                do y = 1, n(2)
                    call self%add_run(c_loc(field(h + 1, y + h, z + h)), n(1), &
                        row_start(block, y, z))
                end do
            end do
        end associate
    end subroutine add_block

    !> As "3 of 8 elements differ from what was written, the first at x,y,z = 0,1,0; all are zero".
    pure function line(self, compared, global) result(text)
        class(differences), intent(in) :: self
        integer(int64), intent(in) :: compared          !! elements
        integer(int64), intent(in) :: global(3)         !! extents of the array
        character(:), allocatable :: text

        associate (i => self%first, n => global)
            text = decimal(self%elements)//' of '//decimal(compared) &
                //' elements differ from what was written, the first at x,y,z = ' &
                //decimal(mod(i, n(1)))//','//decimal(mod(i/n(1), n(2)))//',' &
                //decimal(i/n(1)/n(2))
        end associate
        if (self%zeros == self%elements) then
            text = text//'; all are zero'
        else if (self%zeros > 0) then
            text = text//'; '//decimal(self%zeros)//' are zero'
        end if
    end function line

    !> Forgets what is in memory, so that only a read can bring the pattern back.
    pure subroutine poison(field)
        real(real64), intent(out) :: field(:, :, :)

        field = poison_value
    end subroutine poison

    !> Whether no library touched the halo.
    pure logical function halo_intact(field, block)
        real(real64), intent(in) :: field(:, :, :)
        type(decomposition), intent(in) :: block

        integer(int64) :: y, z

        halo_intact = .true.
        associate (h => block%halo, n => block%extent)
            if (h == 0) return
            do z = 1, n(3) + 2*h
                do y = 1, n(2) + 2*h
                    if (z > h .and. z <= n(3) + h .and. y > h .and. y <= n(2) + h) then
                        halo_intact = halo_intact .and. poisoned(field(:h, y, z)) &
                            .and. poisoned(field(n(1) + h + 1:, y, z))
                    else
                        halo_intact = halo_intact .and. poisoned(field(:, y, z))
                    end if
                end do
            end do
        end associate
    end function halo_intact

    pure logical function poisoned(row)
        real(real64), intent(in) :: row(:)

        integer(int64), parameter :: bits = transfer(poison_value, 0_int64)
        integer :: i

        poisoned = .true.
        do i = 1, size(row)
            poisoned = poisoned .and. transfer(row(i), bits) == bits
        end do
    end function poisoned

    !> Global index of the first element of a row; y and z count from 1 in the block.
    pure integer(int64) function row_start(block, y, z)
        type(decomposition), intent(in) :: block
        integer(int64), intent(in) :: y, z

        row_start = block%lower(1) + block%global(1) &
            *(block%lower(2) + y - 1 + block%global(2)*block%plane(z - 1))
    end function row_start

end module benchio_pattern
