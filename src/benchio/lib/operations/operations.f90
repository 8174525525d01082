!> The operations that a run may do in its rounds. A new one is a file, its lines here and one of
!> CMakeLists.txt.
module benchio_operations
    use benchio_arrays, only: array_operation
    use benchio_latency, only: latency_operation
    use benchio_learning, only: learning_operation
    use benchio_metadata, only: metadata_operation
    use benchio_options, only: check_options, given_options, operation_word, options
    use benchio_result, only: operation
    use benchio_text, only: listed
    implicit none (type, external)
    private

    public :: operation_of, operation_words, settle_operation

    type :: operation_item
        class(operation), allocatable :: method
    end type operation_item

    type(operation_item), target :: known(4)

contains

    subroutine know_all()
        if (allocated(known(1)%method)) return
        allocate (array_operation :: known(1)%method)
        allocate (metadata_operation :: known(2)%method)
        allocate (learning_operation :: known(3)%method)
        allocate (latency_operation :: known(4)%method)
    end subroutine know_all

    !> Finds the operation that a word asks for; null if none does.
    function operation_of(name) result(method)
        character(*), intent(in) :: name
        class(operation), pointer :: method

        integer :: i

        call know_all()
        method => null()
        do i = 1, size(known)
            if (has_word(known(i)%method%words())) method => known(i)%method
        end do

    contains

        pure logical function has_word(words)
            type(operation_word), intent(in) :: words(:)

            has_word = any(words%name == name)
        end function has_word

    end function operation_of

    !> Returns all words of all operations.
    function operation_words() result(words)
        type(operation_word), allocatable :: words(:)

        integer :: i

        call know_all()
        allocate (words(0))
        do i = 1, size(known)
            words = [words, known(i)%method%words()]
        end do
    end function operation_words

    !> Refuses options that do not fit the operation that was asked for, or each other.
    subroutine settle_operation(choice, given)
        type(options), intent(inout) :: choice
        type(given_options), intent(inout) :: given

        class(operation), pointer :: method
        type(operation_word), allocatable :: words(:)
        integer :: i

        call check_options(choice, given)
        allocate (words, source=operation_words())
        do i = 1, size(choice%words)
            call given%refuse(size(choice%words) > 1 .and. any(words%is_alone .and. words%name &
                == choice%words(i)), '--operation takes '//listed(pack(words%name, &
                words%is_alone), 'or')//' alone')
        end do
        do i = 1, size(given%names)
            associate (name => given%names(i))
                call given%refuse(any(words%takes(name)) .and. .not. any(words%takes(name) &
                    .and. words%name == choice%words(1)), trim(name)//' is for --operation ' &
                    //listed(pack(words%name, words%takes(name)), 'and'))
            end associate
        end do
        if (given%error /= '') return
        choice%word = words(findloc(words%name, choice%words(1), 1))
        method => operation_of(choice%words(1))
        call method%settle(choice, given)
    end subroutine settle_operation

end module benchio_operations
