# Install rules: headers, libraries and a CMake package.
