# Writes OUTPUT, a source file that defines friday::cut::standard_annotations() with the text of TEXT.
file(READ ${TEXT} text)
file(WRITE ${OUTPUT} "#include \"core/cut/annotations.h\"\n\nnamespace friday::cut {\n\n"
  "std::string_view standard_annotations() {\n  return R\"friday_toml(${text})friday_toml\";\n}\n\n}  // namespace friday::cut\n")
