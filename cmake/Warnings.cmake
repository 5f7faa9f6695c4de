add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
                    -Wconversion -Wno-sign-conversion -Wimplicit-fallthrough)
if(PENSTOCK_WERROR)
  add_compile_options(-Werror)
endif()
if(PENSTOCK_SANITIZE)
  add_compile_options(-fsanitize=${PENSTOCK_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${PENSTOCK_SANITIZE})
  add_compile_definitions(PENSTOCK_SANITIZED=1)
endif()
if(PENSTOCK_FUZZ)
  add_link_options(-fsanitize=fuzzer-no-link)  # Programs that are no fuzzers use libraries made for those.
endif()
