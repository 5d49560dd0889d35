# Writes OUTPUT, a source file that defines friday::gdb_helper_script() with the texts of SCRIPTS, one behind the other.
foreach(script IN LISTS SCRIPTS)
  file(READ ${script} text)
  string(APPEND all "${text}")
endforeach()
file(WRITE ${OUTPUT} "#include \"core/mi/helper_script.h\"\n\nnamespace friday {\n\n"
  "std::string_view gdb_helper_script() {\n  return R\"friday_py(${all})friday_py\";\n}\n\n}  // namespace friday\n")
