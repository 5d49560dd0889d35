# Writes OUTPUT, a source file that defines friday::gdb_helper_script() with the text of SCRIPT.
file(READ ${SCRIPT} text)
file(WRITE ${OUTPUT} "#include \"core/mi/helper_script.h\"\n\nnamespace friday {\n\n"
  "std::string_view gdb_helper_script() {\n  return R\"friday_py(${text})friday_py\";\n}\n\n}  // namespace friday\n")
