# Sourced with $folder: the environment of a bundle that tests/gpu.sh gathered, on a machine that has CUDA's libraries and nothing else of ours.
export PEER_LIBRARY_PATH=${LD_LIBRARY_PATH:-}   # for programs that are not ours
ln -sf orterun "$folder/bin/mpirun"
export PATH=$folder/bin:$PATH LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} OPAL_PREFIX=$folder
export OMPI_MCA_mca_base_component_path=$folder/lib/openmpi PMIX_MCA_mca_base_component_path=$folder/lib/pmix OMPI_MCA_plm_rsh_agent=false
export TRAINYARD_GOLDEN_FOLDER=$folder/tests/golden
# CUDA's libraries that the loader does not find are looked for where toolkits and Python packages put them.
for name in $(ldd "$folder/bin/libtrainyard_cuda.so" "$folder/bin/libgpu_kernel_times.so" 2>/dev/null | awk '/not found/ {print $1}') libnccl.so.2; do
  if ldconfig -p | grep -q "$name " || [ -e "$folder/lib/$name" ]; then continue; fi
  place=$(find /usr/local /opt /usr/lib -name "$name" -printf '%h\n' 2>/dev/null | sed -n 1p)
  if [ -n "$place" ]; then export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$place; else echo "$name is nowhere" >&2; fi
done
